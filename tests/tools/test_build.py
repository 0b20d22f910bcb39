"""The build of the connector's jar, by real runs of Maven."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POM = ROOT / "jvm-shim" / "connector" / "pom.xml"
CHECK = "shaded-jar-is-the-pinned-one"


def test_each_build_makes_the_check() -> None:
    executions = list(ET.parse(POM).iterfind(".//{*}execution"))
    (check,) = [each for each in executions if each.findtext("{*}id") == CHECK]
    # Each jar and each run of the JVM's tests comes after it.
    assert check.findtext("{*}phase") == "process-classes"


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_build_checks_the_digest_of_what_it_contains(is_pinned: bool) -> None:
    goal = f"enforcer:enforce@{CHECK}"
    command = [
        "mvn",
        "-q",
        "-B",
        "-o",
        "-f",
        str(ROOT / "jvm-shim" / "pom.xml"),
        "-pl",
        "connector",
    ]
    other = [] if is_pinned else [f"-Dkafka-clients.sha256={'0' * 64}"]
    done = subprocess.run([*command, *other, goal], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is is_pinned, done.stdout
    assert ("not the jar that the connector was tested with" in done.stdout) is not is_pinned
