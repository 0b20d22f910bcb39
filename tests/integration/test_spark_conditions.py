"""Error conditions of Spark: one that the jar is not for, and a driver that shuts down."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from eoskafka._jar import jar_file
from harness import Application, Flow, StartApplication
from streams import (
    Streams,
    kv,
)


def changed_jar(folder: Path, entry: str, here: bytes, there: bytes) -> Path:
    """The connector's jar with one text of one entry changed, to another one of its length."""
    other = folder / "eoskafka-other.jar"
    jar = os.environ.get("EOSKAFKA_JAR") or jar_file()
    with zipfile.ZipFile(jar) as ours, zipfile.ZipFile(other, "w") as theirs:
        for each in ours.infolist():
            content = ours.read(each)
            if each.filename == f"io/eoskafka/{entry}":
                assert here in content
                content = content.replace(here, there)
            theirs.writestr(each, content)
    return other


# As the newest version that was tested: the text's length comes before it in a class file.
NEWEST = ("spark/SparkVersion.class", b"\x00\x034.3", b"\x00\x033.9")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            ("build.properties", b"scala=2.13", b"scala=2.12"),
            ("[EOSKAFKA_WRONG_SPARK]", "with Scala 2.12, and Spark 3.5 also", "has Scala 2.13"),
            id="another Scala",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("spark/LogicalShape.class", b"RepartitionOperation", b"RepartitionOfAnother"),
            (
                "[EOSKAFKA_WRONG_SPARK]",
                "lacks org.apache.spark.sql.catalyst.plans.logical.RepartitionOfAnother",
            ),
            id="a class that is missing",
        ),
        pytest.param(
            NEWEST,
            ("[EOSKAFKA_UNTESTED_SPARK]", "set spark.eoskafka.allowUntestedSpark=true"),
            id="a newer Spark",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_jar_for_another_spark(
    start_application: StartApplication,
    flow: Flow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, bytes, bytes],
    said: tuple[str, ...],
) -> None:
    monkeypatch.setenv("EOSKAFKA_JAR", str(changed_jar(tmp_path, *change)))
    application: Application = start_application("local[2]")
    flow.produce(10)
    with pytest.raises(RuntimeError, match="does not answer"):
        flow.start(application)
    assert all(part in application.text() for part in said), application.text()


@pytest.mark.slow
def test_a_newer_spark_is_taken_if_that_is_allowed(
    start_application: StartApplication,
    flow: Flow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EOSKAFKA_JAR", str(changed_jar(tmp_path, *NEWEST)))
    allowed = {"spark.eoskafka.allowUntestedSpark": "true"}
    application: Application = start_application("local[2]", allowed)
    flow.produce(10)
    flow.start(application).wait_done()
    flow.assert_exactly_once()


def test_no_batch_begins_once_the_drivers_jvm_ends(streams: Streams) -> None:
    """As its shutdown hook leaves it: this JVM is needed by other tests."""
    jvm: Any = streams.spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    flag = loader.loadClass("io.eoskafka.spark.RunningQuery").getDeclaredField("isEnding")
    flag.setAccessible(True)
    topic, output = streams.topic(records=4), streams.topic()
    try:
        flag.setBoolean(None, True)
        error = streams.failure(streams.sink(kv(streams.source(topic)), output))
    finally:
        flag.setBoolean(None, False)
    assert "EOSKAFKA_DRIVER_ENDS" in error
    assert streams.numbers(output) == []
