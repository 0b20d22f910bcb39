from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import eoskafka
import pytest
from eoskafka import ConfigurationError, session
from pyspark import SparkContext
from pyspark.sql import SparkSession

PLUGIN = "io.eoskafka.EosKafkaPlugin"
JAR = "/x/eoskafka-0.1.0.jar"


@pytest.fixture(autouse=True)
def no_spark_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "jar_path", lambda thin=False: Path(JAR))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def run_session_with(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    context = SimpleNamespace(getConf=lambda: settings)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)


def test_configure_adds_jar_and_plugin_to_a_new_builder() -> None:
    builder = SparkSession.builder
    assert eoskafka.configure(builder) is builder
    assert builder._options["spark.jars"] == JAR
    assert builder._options["spark.plugins"] == PLUGIN


def test_configure_appends_to_what_is_there() -> None:
    builder = SparkSession.builder.config("spark.jars", "/a.jar").config("spark.plugins", "org.P")
    eoskafka.configure(builder)
    assert builder._options["spark.jars"] == f"/a.jar,{JAR}"
    assert builder._options["spark.plugins"] == f"org.P,{PLUGIN}"


def test_a_jar_that_is_there_under_another_url_is_not_added_again() -> None:
    builder = SparkSession.builder.config("spark.jars", f"file://{JAR}")
    assert eoskafka.configure(builder)._options["spark.jars"] == f"file://{JAR}"


def test_configure_twice_is_configure_once() -> None:
    builder = eoskafka.configure(SparkSession.builder)
    once = dict(builder._options)
    assert eoskafka.configure(builder)._options == once


def test_a_running_session_with_jar_and_plugin_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_session_with(monkeypatch, {"spark.jars": f"file://{JAR}", "spark.plugins": PLUGIN})
    eoskafka.configure(SparkSession.builder)


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, "spark.jars, spark.plugins"),
        ({"spark.jars": JAR}, "spark.plugins"),
        ({"spark.plugins": f"org.P,{PLUGIN}"}, "spark.jars"),
    ],
)
def test_a_running_session_without_the_connector_is_told_which_settings_lack(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], missing: str
) -> None:
    run_session_with(monkeypatch, settings)
    with pytest.raises(ConfigurationError, match=f"lacks the connector in {missing}, and"):
        eoskafka.configure(SparkSession.builder)
