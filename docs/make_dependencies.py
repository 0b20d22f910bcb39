"""Makes dependencies.md from pyproject.toml and the poms: `make docs`.

The reasons are here. A dependency without a reason, or a reason without its dependency, is an error.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TARGET = Path(__file__).with_name("dependencies.md")

_HEAD = """\
# Dependencies

Made from `pyproject.toml` and the poms by `make docs`; do not edit.

This page says why each dependency is there. [security.md](security.md#the-supply-chain) says how downloads
are verified and what the jar's list of components (SBOM) contains. A Spark cluster has its own pyspark,
pandas, pyarrow and Delta Lake, so the Python package requires none of them.
"""

_BUNDLED = """
## In the jar

The jar contains one library and what that library contains. Their classes are under `io.eoskafka.shaded.kafka`.

| library | version | licence |
|---|---|---|
"""

_EXTRAS = {
    "": "What `pip install eoskafka` installs",
    "local": "Extra `local`: Spark on this machine",
    "connect": "Extra `connect`: a client of Spark Connect",
    "verify": "Extra `verify`: `eoskafka verify` and `eoskafka doctor`",
    "bench": "Extra `bench`: `eoskafka bench`",
    "metrics": "Extra `metrics`: the exporter for Prometheus, and `eoskafka top`",
    "opentelemetry": "Extra `opentelemetry`: OpenTelemetry",
    "schemas": "Extra `schemas`: a schema registry",
    "delta": "Extra `delta`: Delta Lake",
    "test": "Extra `test`: the tests",
    "docs": "Extra `docs`: the web site of these pages",
    "dev": "Extra `dev`: the checks and the release",
}

_WHY = {
    "build": "builds the sdist and the wheel in an environment of their own",
    "confluent-kafka": "asks a schema registry, and is the reader of the audit, which shares no code with the "
    "connector",
    "cryptography": "certificates and signed tokens for the tests of log-ins",
    "cyclonedx-bom": "lists the Python environment that a release was tried in",
    "cyclonedx-python-lib": "validates the jar's list of components against CycloneDX's schema",
    "delta-spark": "Delta tables as sources and expectations, with the newest Spark that it supports",
    "deltalake": "reads Delta tables without Spark, for `eoskafka verify --expected`",
    "furo": "the theme of the web site",
    "googleapis-common-protos": "a client of Spark Connect needs it",
    "grpcio": "a client of Spark Connect needs it",
    "grpcio-status": "a client of Spark Connect needs it",
    "hypothesis": "property tests",
    "ipykernel": "runs the notebook in a test",
    "javaproperties": "reads and writes `client.properties` as Java does",
    "kafka-python": "the commands' client of brokers: groups, offsets, transactions, topics",
    "matplotlib": "plots of the benchmarks",
    "mfusepy": "a file system that fails on demand, for tests of checkpoints",
    "mypy": "checks types",
    "myst-parser": "reads the pages, which are in Markdown, for the web site",
    "nbclient": "runs the notebook in a test",
    "nbformat": "reads the notebook in a test",
    "numpy": "the audit compares millions of records as arrays",
    "opentelemetry-api": "the interface by which `eoskafka.metrics.instrument` reports",
    "opentelemetry-exporter-otlp-proto-http": "sends to a server of the tests what is reported to OpenTelemetry",
    "opentelemetry-sdk": "collects what is reported to OpenTelemetry, in the tests",
    "pandas": "pandas functions in Spark",
    "prometheus-client": "serves the metrics",
    "psutil": "finds and ends the processes of the local cluster and the demo",
    "pyarrow": "Arrow data between Spark and Python, and Parquet files of the audit",
    "pyspark": "Spark itself; the main version, which the jar is compiled with, in `dev`",
    "pyspark-client": "Spark's client without jars and without Java",
    "pytest": "runs the tests",
    "pytest-cov": "measures which lines the unit tests run",
    "pytest-timeout": "ends a test that hangs",
    "pytest-xdist": "runs the tests in two processes",
    "pyyaml": "files of declarative pipelines and of Databricks",
    "rich": "tables and progress of the commands",
    "ruff": "formats and lints, with the rules of flake8-bandit for security",
    "setuptools": "the build backend",
    "sphinx": "makes the web site, with its search and the Python API",
    "tomli": "reads `pyproject.toml` on Python 3.10",
    "twine": "checks the metadata of the sdist and the wheel",
    "typer": "the command line",
    "types-psutil": "types for mypy",
    "types-pyyaml": "types for mypy",
    "zstandard": "a client of Spark Connect needs it",
}

_MAVEN_WHY = {
    "spark-sql_2.13": "the interfaces that the connector implements; a cluster provides it",
    "kafka-clients": "Kafka's client, the only library in the jar",
    "junit-jupiter": "runs the JVM tests",
    "assertj-core": "assertions of the JVM tests",
    "jqwik": "property tests of everything that reads foreign input",
    "archunit": "checks which package may use which",
    "spark-core_2.13": "types that peers of the benchmarks need; Spark provides it",
    "spark-sql-kafka-0-10_2.13": "the built-in connector, a peer in the benchmarks",
    "kafka-streams": "Kafka Streams, a peer in the benchmarks",
    "slf4j-simple": "logs of the peers' programs",
    "maven-compiler-plugin": "compiles Java 17 with all warnings",
    "maven-resources-plugin": "copies and fills in resources",
    "maven-jar-plugin": "packs the jar",
    "maven-surefire-plugin": "runs the JVM tests",
    "maven-shade-plugin": "puts kafka-clients into the jar under another package name",
    "maven-enforcer-plugin": "refuses a kafka-clients jar with another digest",
    "maven-dependency-plugin": "collects the jars of the benchmarks' peers and of each Spark version",
    "spotbugs-maven-plugin": "finds bugs in the bytecode",
    "findsecbugs-plugin": "adds security rules to SpotBugs",
    "spotless-maven-plugin": "formats Java with google-java-format",
}
_POMS = (
    "jvm-shim/pom.xml",
    "jvm-shim/connector/pom.xml",
    "jvm-shim/bench-peers/pom.xml",
    "jvm-shim/bench-programs/pom.xml",
    "jvm-shim/linkage/pom.xml",
)


def text() -> str:
    """The page."""
    parts = [_HEAD, _BUNDLED + "".join(_row(each) for each in _bundled())]
    used = set()
    for extra, requirements in python_requirements().items():
        parts.append(f"\n## {_EXTRAS[extra]}\n\n| package | versions | why |\n|---|---|---|\n")
        for requirement in requirements:
            name, versions = _split(requirement)
            if name != "eoskafka":
                used.add(name)
            parts.append(_row((name, versions, _why(name, versions))))
    parts.append("\n## Maven\n\n| artifact | version | scope | why |\n|---|---|---|---|\n")
    maven = _maven()
    parts += [_row((name, *found, _MAVEN_WHY[name])) for name, found in maven.items()]
    unused = (_WHY.keys() - used) | (_MAVEN_WHY.keys() - maven.keys())
    if unused:
        raise SystemExit(f"docs/make_dependencies.py explains what is not there: {sorted(unused)}")
    return "".join(parts)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _why(name: str, versions: str) -> str:
    if name == "eoskafka":
        return f"what the extras {versions} have"
    return _WHY[name]


def _split(requirement: str) -> tuple[str, str]:
    """Name and versions; for extras of eoskafka itself, their names."""
    if own := re.fullmatch(r"eoskafka\[(.*)\]", requirement):
        return "eoskafka", ", ".join(f"`{extra}`" for extra in own[1].split(","))
    found = re.fullmatch(r"([A-Za-z0-9-]+)(?:\[.*\])?([^;]*)(;.*)?", requirement)
    if found is None:
        raise SystemExit(f"pyproject.toml: {requirement} cannot be read")
    return found[1].lower(), f"`{(found[2] + (found[3] or '')).strip()}`"


def python_requirements() -> dict[str, list[str]]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = found["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return {"": project["dependencies"], **extras}


def _maven() -> dict[str, tuple[str, str]]:
    """Version and scope of each artifact, by its name."""
    properties: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}
    for pom in _POMS:
        root = ET.parse(ROOT / pom).getroot()  # noqa: S314 - a file of this repository
        for each in root.iterfind("{*}properties/*"):
            properties.setdefault(each.tag.rpartition("}")[2], each.text or "")
        for kind in ("dependency", "plugin"):
            for each in root.iterfind(f".//{{*}}{kind}"):
                name = _filled(each.findtext("{*}artifactId", ""), properties)
                version = _filled(each.findtext("{*}version", ""), properties)
                scope = "build" if kind == "plugin" else each.findtext("{*}scope", "compile")
                if name and version:
                    found.setdefault(name, (f"`{version}`", scope))
    return found


def _filled(value: str, properties: dict[str, str]) -> str:
    return re.sub(r"\$\{(.+?)\}", lambda name: properties[name[1]], value)


def _bundled() -> list[tuple[str, str, str]]:
    """The components in the template of the jar's list."""
    resources = ROOT / "jvm-shim/connector/src/main/resources"
    template = (resources / "META-INF/sbom/eoskafka.cdx.json").read_text(encoding="utf-8")
    blocks = re.findall(
        r'"group": "(.*?)",\s+"name": "(.*?)",\s+"version": "(.*?)".*?"id": "(.*?)"',
        template,
        re.DOTALL,
    )
    root = ET.parse(ROOT / _POMS[0]).getroot()  # noqa: S314 - a file of this repository
    kafka = root.findtext("{*}properties/{*}kafka.version", "")
    return [
        (f"{group}:{name}", f"`{version.replace('${kafka.version}', kafka)}`", licence)
        for group, name, version, licence in blocks
        if name != "eoskafka"
    ]
