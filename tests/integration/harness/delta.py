"""Delta's jars, from Maven: of what they depend on, only what Spark does not bring."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

_POM = Path(__file__).with_name("delta-pom.xml")
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@cache
def delta_jars() -> str:
    """For `spark.jars`; downloaded where they are not among Maven's files yet."""
    folder = Path(__file__).parents[3] / "build" / "delta-jars"
    command = [
        *("mvn", "-q", "-B", "-f", str(_POM), _GOAL, f"-Ddelta.version={version('delta-spark')}"),
        *(f"-DoutputDirectory={folder}", "-DexcludeTransitive=true"),
    ]
    subprocess.run(command, check=True)
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))
