"""`eoskafka doctor` on this machine: what is missing, or of a wrong version, is said."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from eoskafka import doctor
from eoskafka.cli import app
from eoskafka.doctor import Finding, Level
from eoskafka.doctor.brokers import right
from eoskafka.errors import JarError


def finding(about: str) -> Finding:
    (found,) = [each for each in doctor.machine() if each.about == about]
    return found


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A JAVA_HOME's java, still to be written."""
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home / "bin" / "java"


def say(java: Path, text: str) -> None:
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n", encoding="utf-8")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "level", "found"),
    [
        ('openjdk version "17.0.9" 2023-10-17', Level.FINE, "17.0.9 ("),
        ('openjdk version "21" 2023-09-19', Level.FINE, "21 ("),
        ('java version "1.8.0_392"', Level.PROBLEM, "8.0_392 ("),
        ('openjdk version "11.0.2" 2019-01-15', Level.PROBLEM, "eoskafka needs 17"),
        ("what?", Level.UNKNOWN, "does not say its version"),
    ],
)
def test_java_is_one_that_spark_runs_on(java: Path, text: str, level: Level, found: str) -> None:
    say(java, text)
    java_here = finding("Java")
    assert (java_here.level, found in java_here.found) == (level, True)
    assert bool(java_here.advice) == (level is not Level.FINE)


def test_no_java_is_a_problem(java: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "does not run" in finding("Java").found
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert finding("Java").level is Level.PROBLEM


@pytest.mark.parametrize(
    ("version", "level", "advice"),
    [
        ("4.2.3", Level.FINE, ""),
        ("4.0.1.dev0", Level.FINE, ""),
        ("3.4.4", Level.PROBLEM, "pip install 'pyspark==4.3.*'"),
        ("4.4.0", Level.PROBLEM, "pip install 'pyspark==4.3.*'"),
        (None, Level.UNKNOWN, "a cluster brings its own, which must be 3.5 to 4.3"),
    ],
)
def test_spark_is_the_jars(
    version: str | None, level: Level, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = {"spark": "4.2.0", "scala": "2.13", "kafka": "4.3.1"}
    monkeypatch.setattr("eoskafka.doctor.local.jar_path", lambda: Path("eoskafka.jar"))
    monkeypatch.setattr("eoskafka._jar.build_properties", lambda _: built)

    def installed(_: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(metadata, "version", installed)
    found = finding("Spark")
    assert (found.level, found.advice.startswith(advice)) == (level, True)


@pytest.mark.parametrize("spark", ["4.2.1", "4.3.0"])
def test_a_spark_without_schemas_is_noted(spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = {"spark": "4.2.0", "scala": "2.13", "kafka": "4.3.1"}
    monkeypatch.setattr("eoskafka.doctor.local.jar_path", lambda: Path("eoskafka.jar"))
    monkeypatch.setattr("eoskafka._jar.build_properties", lambda _: built)
    monkeypatch.setattr(metadata, "version", lambda _: spark)
    notes = [each.advice for each in doctor.machine() if each.level is Level.NOTE]
    about_schemas = [advice for advice in notes if "schemas" in advice]
    assert about_schemas == (
        ["if a query uses schemas: pip install 'pyspark==4.2.0'"] if spark == "4.3.0" else []
    )


def test_another_scala_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built = {"spark": metadata.version("pyspark"), "scala": "2.13", "kafka": "4.3.1"}
    monkeypatch.setattr("eoskafka.doctor.local.jar_path", lambda: Path("eoskafka.jar"))
    monkeypatch.setattr("eoskafka._jar.build_properties", lambda _: built)
    assert finding("Scala").level is Level.FINE
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "scala-library-2.12.18.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert (finding("Scala").level, finding("Scala").found[:7]) == (Level.PROBLEM, "2.12.18")


def test_a_jar_that_cannot_be_used_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stale() -> Path:
        raise JarError("it is stale: run `make build`")

    monkeypatch.setattr("eoskafka.doctor.local.jar_path", stale)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["doctor", "--format", "json"]))
    assert ended.value.code == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {
        "about": "jar",
        "level": "problem",
        "found": "it is stale: run `make build`",
    }.items() <= ({each["about"]: each for each in findings}["jar"].items())


def test_workers_with_another_python_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert finding("Python workers").level is Level.FINE
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/other-{name}")
    assert finding("Python workers").advice.startswith(f"export PYSPARK_PYTHON={sys.executable}")


@pytest.mark.parametrize(
    ("version", "level"),
    [("4.2.0", Level.FINE), ("4.4.0", Level.PROBLEM), ("3.4.4", Level.PROBLEM)],
)
def test_a_client_of_spark_connect_needs_no_java(
    monkeypatch: pytest.MonkeyPatch, version: str, level: Level
) -> None:
    def installed(package: str) -> str:
        if package != "pyspark-client":
            raise metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(metadata, "version", installed)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert [(each.about, each.level) for each in doctor.machine()] == [
        ("Python", Level.FINE),
        ("Spark Connect", level),
    ]


def test_a_server_of_spark_connect_that_does_not_answer_is_a_problem() -> None:
    found = doctor.server("sc://127.0.0.1:1")
    assert found.level is Level.PROBLEM
    assert found.found.startswith("does not answer: ")


def _answer(*errors: int) -> Callable[[], Any]:
    """Fails with these codes of Kafka, then allows everything."""
    left = list(errors)

    def describe() -> Any:
        if left:
            raise KafkaException(KafkaError(left.pop(0), "Described: "))
        return SimpleNamespace(authorized_operations=[SimpleNamespace(name="READ")])

    return describe


@pytest.mark.parametrize(
    ("errors", "level", "found"),
    [
        ((), Level.FINE, "this user has Read"),
        # A group's coordinator that is elected, and reads its log.
        (
            (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
            Level.FINE,
            "this user has Read",
        ),
        (
            (KafkaError.GROUP_AUTHORIZATION_FAILED,),
            Level.PROBLEM,
            "it does not exist, or this user may not see it: "
            "GROUP_AUTHORIZATION_FAILED (Described: )",
        ),
        (
            (KafkaError._TIMED_OUT,),
            Level.UNKNOWN,
            "the brokers did not describe it: _TIMED_OUT (Described: )",
        ),
    ],
)
def test_only_what_brokers_hide_is_called_missing(
    errors: tuple[int, ...], level: Level, found: str
) -> None:
    said = right("group g", _answer(*errors), "Read")
    assert (said.level, said.found) == (level, found)
