"""Jars that only tests need, from Maven."""

from __future__ import annotations

import subprocess
from pathlib import Path

from eoskafka.cluster.jars import KAFKA_VERSION

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def jars(name: str, *properties: str, folder: Path | None = None) -> list[Path]:
    """What `<name>-pom.xml` beside this file asks for, in `folder` or `build/<name>-jars`.

    Downloaded where it is not among Maven's files yet.

    Args:
        properties: Maven's, `key=value`.
    """
    here = Path(__file__)
    folder = folder or here.parents[3] / "build" / f"{name}-jars"
    command = [
        *("mvn", "-q", "-B", "-f", str(here.with_name(f"{name}-pom.xml")), _GOAL),
        *(f"-D{each}" for each in (f"outputDirectory={folder}", *properties)),
    ]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.jar"))


def kafka_tools() -> list[Path]:
    """The commands of Kafka's distribution, beside the brokers' jars of the local cluster."""
    return jars("kafka-tools", f"kafka.version={KAFKA_VERSION}")


def kafka_jars(release: str) -> list[Path]:
    """A release of Kafka's brokers, in a folder of its own."""
    folder = Path(__file__).parents[3] / "build" / f"kafka-{release}-jars"
    return jars("kafka-release", f"kafka.version={release}", folder=folder)
