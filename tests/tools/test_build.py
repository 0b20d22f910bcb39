"""The build of the connector's jar, by real runs of Maven."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_build_checks_the_digest_of_what_it_contains(is_pinned: bool) -> None:
    goal = "enforcer:enforce@shaded-jar-is-the-pinned-one"
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
