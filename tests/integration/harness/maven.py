"""Jars that only tests need, from Maven."""

from __future__ import annotations

import subprocess
from pathlib import Path

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def jars(name: str, *properties: str) -> list[Path]:
    """What `<name>-pom.xml` beside this file asks for, in `build/<name>-jars`.

    Downloaded where it is not among Maven's files yet.

    Args:
        properties: Maven's, `key=value`.
    """
    here = Path(__file__)
    folder = here.parents[3] / "build" / f"{name}-jars"
    command = [
        *("mvn", "-q", "-B", "-f", str(here.with_name(f"{name}-pom.xml")), _GOAL),
        *(f"-D{each}" for each in (f"outputDirectory={folder}", *properties)),
    ]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.jar"))
