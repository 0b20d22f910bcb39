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

This page explains why each dependency is needed. [security.md](security.md#the-supply-chain) explains how
downloads are verified and what the jar's software bill of materials (SBOM) contains. A Spark cluster provides
pyspark, pandas, pyarrow and Delta Lake, so the Python package does not require them.
"""

_BUNDLED = """
## In the jar

The jar contains one library and the libraries that are bundled with it. Their classes are relocated to
`io.eoskafka.shaded.kafka`.

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
    "build": "builds the sdist and the wheel in an isolated environment",
    "confluent-kafka": "the client of schema registries, and the audit's consumer, which shares no code with "
    "the connector",
    "cryptography": "creates certificates and signed tokens for the login tests",
    "cyclonedx-bom": "lists the packages of the Python environment in which a release was tested",
    "cyclonedx-python-lib": "validates the jar's SBOM against the CycloneDX schema",
    "delta-spark": "Delta tables as sources and as expected output, with the newest Spark that it supports",
    "deltalake": "reads Delta tables without Spark, for `eoskafka verify --expected`",
    "furo": "the theme of the web site",
    "googleapis-common-protos": "required by clients of Spark Connect",
    "grpcio": "required by clients of Spark Connect",
    "grpcio-status": "required by clients of Spark Connect",
    "hypothesis": "property tests",
    "ipykernel": "runs the notebook in a test",
    "javaproperties": "reads and writes `client.properties` as Java does",
    "kafka-python": "the Kafka client of the commands: groups, offsets, transactions, topics",
    "matplotlib": "plots of the benchmarks",
    "mfusepy": "a file system that fails on demand, for tests of checkpoints",
    "mypy": "checks types",
    "myst-parser": "parses the Markdown pages for the web site",
    "nbclient": "runs the notebook in a test",
    "nbformat": "reads the notebook in a test",
    "numpy": "the audit compares millions of records as arrays",
    "opentelemetry-api": "the API that `eoskafka.metrics.instrument` uses",
    "opentelemetry-exporter-otlp-proto-http": "exports OpenTelemetry data to a server in the tests",
    "opentelemetry-sdk": "collects OpenTelemetry data in the tests",
    "pandas": "pandas functions in Spark",
    "prometheus-client": "serves the metrics",
    "psutil": "finds and terminates the processes of the local cluster and the demo",
    "pyarrow": "exchanges Arrow data with Python, and handles the audit's Parquet files",
    "pyspark": "Spark itself; the main version, against which the jar is compiled, is in `dev`",
    "pyspark-client": "Spark's client without jars and without Java",
    "pytest": "runs the tests",
    "pytest-cov": "measures which lines the unit tests run",
    "pytest-timeout": "aborts tests that hang",
    "pytest-xdist": "runs the tests in two processes",
    "pyyaml": "handles the YAML files of declarative pipelines and Databricks",
    "rich": "prints the tables and the progress of the commands",
    "ruff": "formats and lints, with the rules of flake8-bandit for security",
    "setuptools": "the build backend",
    "sphinx": "builds the web site, including its search and the Python API reference",
    "tomli": "reads `pyproject.toml` on Python 3.10",
    "twine": "checks the metadata of the sdist and the wheel",
    "typer": "the command line",
    "types-psutil": "types for mypy",
    "types-pyyaml": "types for mypy",
    "zstandard": "required by clients of Spark Connect",
}

_MAVEN_WHY = {
    "spark-sql_2.13": "the interfaces that the connector implements; provided by the cluster",
    "kafka-clients": "Kafka's client, the only library in the jar",
    "junit-jupiter": "runs the JVM tests",
    "assertj-core": "assertions of the JVM tests",
    "jqwik": "property tests of all code that reads external input",
    "archunit": "checks which packages may depend on each other",
    "spark-core_2.13": "types that the benchmark peers need; provided by Spark",
    "spark-sql-kafka-0-10_2.13": "the built-in connector, a peer in the benchmarks",
    "kafka-streams": "Kafka Streams, a peer in the benchmarks",
    "slf4j-simple": "logging for the benchmark programs",
    "maven-compiler-plugin": "compiles Java 17 with all warnings",
    "maven-resources-plugin": "copies resources and fills in their properties",
    "maven-jar-plugin": "packs the jar",
    "maven-surefire-plugin": "runs the JVM tests",
    "maven-shade-plugin": "puts kafka-clients into the jar under another package name",
    "maven-enforcer-plugin": "fails the build if the kafka-clients jar has an unexpected digest",
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
        raise SystemExit(f"docs/make_dependencies.py lists unknown dependencies: {sorted(unused)}")
    return "".join(parts)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _why(name: str, versions: str) -> str:
    if name == "eoskafka":
        return f"the dependencies of the extras {versions}"
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
