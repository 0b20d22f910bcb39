from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import eoskafka
import pytest
from eoskafka import ConfigurationError, _connect, _launcher, session
from eoskafka.delta import package
from eoskafka.schemas import package as avro_package
from eoskafka.schemas.jar import with_limits
from eoskafka.session import REAL_TIME_CHECK
from eoskafka.sparks import ASYNC_PROGRESS
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

PLUGIN = "io.eoskafka.EosKafkaPlugin"
JAR = "/x/eoskafka-0.1.0.jar"


@pytest.fixture(autouse=True)
def no_spark_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "jar_path", lambda thin=False: Path(JAR))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


def run_session_with(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    context = SimpleNamespace(getConf=lambda: settings)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    # Where integration tests ran before in this process its JVM has the connector.
    monkeypatch.setattr(SparkContext, "_jvm", None)


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


def test_the_connectors_jar_under_another_name_is_not_added_again(tmp_path: Path) -> None:
    mine = tmp_path / "eoskafka.jar"
    with ZipFile(mine, "w") as archive:
        archive.writestr("io/eoskafka/build.properties", f"version={eoskafka.__version__}\n")
    for listed in (str(mine), f"file://{mine}", "hdfs:///jars/eoskafka.jar"):
        builder = SparkSession.builder.config("spark.jars", f"/a.jar,{listed}")
        assert eoskafka.configure(builder)._options["spark.jars"] == f"/a.jar,{listed}"
    with ZipFile(mine, "w") as archive:
        archive.writestr("io/eoskafka/build.properties", "version=0.0.9\n")
    builder = SparkSession.builder.config("spark.jars", str(mine))
    with pytest.raises(ConfigurationError, match=r"of version 0\.0\.9, and this package is"):
        eoskafka.configure(builder)


def test_configure_twice_is_configure_once() -> None:
    builder = eoskafka.configure(SparkSession.builder)
    once = dict(builder._options)
    assert eoskafka.configure(builder)._options == once


def test_a_running_session_with_jar_and_plugin_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_session_with(monkeypatch, {"spark.jars": f"file://{JAR}", "spark.plugins": PLUGIN})
    eoskafka.configure(SparkSession.builder)


def test_what_spark_defaults_list_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.jars   /a.jar,/b.jar\nspark.plugins=org.P\n", encoding="utf-8"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options = eoskafka.configure(SparkSession.builder)._options
    assert options["spark.jars"] == f"/a.jar,/b.jar,{JAR}"
    assert options["spark.plugins"] == f"org.P,{PLUGIN}"
    other = tmp_path / "other.conf"
    other.write_text("spark.jars /c.jar\n", encoding="utf-8")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {other} pyspark-shell")
    assert eoskafka.configure(SparkSession.builder)._options["spark.jars"] == f"/c.jar,{JAR}"


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ("--jars /a.jar pyspark-shell", f"spark.jars to /a.jar,{JAR}"),
        ("--conf spark.plugins=org.P pyspark-shell", f"spark.plugins to org.P,{PLUGIN}"),
        ("--jars=/a.jar pyspark-shell", f"spark.jars to /a.jar,{JAR}"),
        (f"--jars /a.jar --conf spark.jars={JAR} pyspark-shell", f"to /a.jar,{JAR}"),
        (f"--jars /a.jar pyspark-shell --jars {JAR}", f"spark.jars to /a.jar,{JAR}"),
    ],
)
def test_submit_arguments_that_hide_the_connector_are_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: str, advice: str
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    with pytest.raises(ConfigurationError) as error:
        eoskafka.configure(SparkSession.builder)
    assert advice in str(error.value)
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        f"--jars /a.jar,{JAR} --conf spark.plugins=org.P,{PLUGIN} --name x pyspark-shell",
    )
    eoskafka.configure(SparkSession.builder)


def test_a_properties_file_is_read_as_java_does() -> None:
    text = (
        "  spark.jars /a.jar,\\\n      /b.jar\n! no\nspark.redaction.regex=\\\\bpin\\\\b\n"
        "spark.x:1\nspark.y\n\nspark.z = a=b \\u0041\n"
    )
    assert _launcher.properties(text) == {
        "spark.jars": "/a.jar,/b.jar",
        "spark.redaction.regex": r"\bpin\b",
        "spark.x": "1",
        "spark.y": "",
        "spark.z": "a=b A",
    }


@pytest.mark.parametrize("key", ["spark.redaction.regex", "spark.sql.catalog.spark_catalog"])
def test_submit_arguments_that_hide_other_settings_are_refused(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf {key}=other pyspark-shell")
    with pytest.raises(ConfigurationError, match=f"PYSPARK_SUBMIT_ARGS sets {key}"):
        eoskafka.configure(SparkSession.builder, delta=True)


def test_delta_is_added_beside_other_extensions() -> None:
    builder = SparkSession.builder.config("spark.sql.extensions", "org.E")
    options = eoskafka.configure(builder, delta=True)._options
    assert options["spark.sql.extensions"] == "org.E,io.delta.sql.DeltaSparkSessionExtension"
    assert options["spark.sql.catalog.spark_catalog"].endswith(".DeltaCatalog")
    assert (
        options["spark.jars.packages"] == f"io.delta:delta-spark_4.2_2.13:{version('delta-spark')}"
    )
    assert eoskafka.configure(builder, delta=True)._options == options


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars", "/jars/delta-spark_4.2_2.13-4.4.0.jar"),
        ("spark.jars.packages", "org:a:1,io.delta:delta-spark_2.13:4.4.0"),
    ],
)
def test_deltas_jar_that_is_there_is_not_added_again(key: str, value: str) -> None:
    builder = SparkSession.builder.config(key, value)
    options = eoskafka.configure(builder, delta=True)._options
    assert options.get("spark.jars.packages", "") in ("", value)


def test_delta_does_not_take_another_catalogs_place() -> None:
    builder = SparkSession.builder.config("spark.sql.catalog.spark_catalog", "org.Other")
    with pytest.raises(ConfigurationError, match=r"spark_catalog is org\.Other, but Delta needs"):
        eoskafka.configure(builder, delta=True)


def test_sparks_avro_functions_and_limits_are_added_beside_what_is_there() -> None:
    builder = SparkSession.builder.config("spark.jars.packages", "org:a:1")
    builder.config("spark.executor.extraJavaOptions", "-Da=b")
    options = eoskafka.configure(builder, avro=True, delta=True)._options
    assert options["spark.jars.packages"].split(",") == ["org:a:1", package(), avro_package()]
    assert options["spark.driver.extraJavaOptions"] == with_limits("")
    assert options["spark.executor.extraJavaOptions"] == with_limits("-Da=b")
    assert eoskafka.configure(builder, avro=True, delta=True)._options == options
    there = SparkSession.Builder().config("spark.jars", "/jars/spark-avro_2.13-4.2.0.jar")
    options = eoskafka.configure(there, avro=True)._options
    assert "spark.jars.packages" not in options
    assert options["spark.driver.extraJavaOptions"] == with_limits("")


def test_limits_that_spark_submits_arguments_would_hide_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "spark.executor.extraJavaOptions"
    given = "-Dpassword=pass-1 -Dorg.apache.avro.limits.string.maxLength=99999999"
    arguments = "--conf '{}={}' pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments.format(key, given))
    with pytest.raises(ConfigurationError) as error:
        eoskafka.configure(SparkSession.Builder(), avro=True)
    missing = with_limits(given).removeprefix(given).strip()
    assert f"add {missing} to {key};" in str(error.value)
    assert "string.maxLength" not in missing
    assert "pass-1" not in str(error.value)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments.format(key, with_limits(given)))
    eoskafka.configure(SparkSession.Builder(), avro=True)


def test_schemas_do_not_run_with_spark_connect() -> None:
    builder = SparkSession.Builder().config("spark.remote", "sc://host:15002")
    with pytest.raises(ConfigurationError, match="does not run with Spark Connect"):
        eoskafka.configure(builder, avro=True)


def test_a_builder_of_spark_connect_is_left_as_it_is() -> None:
    builder = SparkSession.Builder().config("spark.remote", "sc://host:15002")
    assert eoskafka.configure(builder) is builder
    assert builder._options == {"spark.remote": "sc://host:15002"}
    options = eoskafka.configure(builder, real_time=True)._options
    assert options[REAL_TIME_CHECK] == options[ASYNC_PROGRESS] == "false"


def test_spark_connect_has_delta_from_its_server() -> None:
    builder = SparkSession.Builder().config("spark.remote", "sc://host:15002")
    with pytest.raises(ConfigurationError, match=r"Start the server with --packages io\.delta:"):
        eoskafka.configure(builder, delta=True)


@pytest.mark.parametrize(
    ("key", "value"), [("spark.remote", "local"), ("spark.api.mode", "connect")]
)
def test_a_server_that_pyspark_starts_itself_is_refused(key: str, value: str) -> None:
    builder = SparkSession.Builder().config(key, value)
    with pytest.raises(ConfigurationError, match="would start a server of Spark Connect in this"):
        eoskafka.configure(builder)


def test_pyspark_client_needs_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connect, "has_classic", lambda: False)
    with pytest.raises(ConfigurationError, match=r"names none: eoskafka\.configure"):
        eoskafka.configure(SparkSession.Builder().appName("payments"))


class Server:
    """A session of Spark Connect: what its server says."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, conf: dict[str, str], error: str = "[DATA_SOURCE_NOT_FOUND] no") -> None:
        self.conf = conf
        self._error = error

    @property
    def read(self) -> Server:
        return self

    def format(self, _: str) -> Server:
        return self

    def load(self) -> Server:
        return self

    @property
    def schema(self) -> None:
        raise PySparkException(self._error)


def test_a_server_with_the_plugin_of_this_version_is_accepted() -> None:
    eoskafka.check(Server({_connect.VERSION: eoskafka.__version__}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Server({_connect.VERSION: "0.0.9"}), r"of version 0\.0\.9, and this package is"),
        (Server({}), "neither the connector's jar nor its plugin"),
        (Server({"spark.plugins": "org.P"}), rf"spark\.plugins=org\.P,{PLUGIN}"),
        (Server({}, "[EOSKAFKA_JAR_IN_SESSION] no"), "without the connector's plugin"),
    ],
)
def test_a_server_without_the_connector_is_told_how_to_set_it(server: Server, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        eoskafka.check(server)  # type: ignore[arg-type]


def test_a_running_session_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    run_session_with(monkeypatch, {"spark.jars": JAR, "spark.plugins": PLUGIN})
    eoskafka.check(SparkSession.__new__(SparkSession))
    run_session_with(monkeypatch, {"spark.jars": JAR})
    with pytest.raises(ConfigurationError, match=r"lacks the connector in spark\.plugins"):
        eoskafka.check(SparkSession.__new__(SparkSession))


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


@pytest.mark.parametrize(
    ("spark", "settings"),
    [
        ("4.1.4", {REAL_TIME_CHECK: "false"}),
        ("4.2.1", {REAL_TIME_CHECK: "false"}),
        ("4.3.0", {REAL_TIME_CHECK: "false", ASYNC_PROGRESS: "false"}),
    ],
)
def test_real_time_mode_needs_other_settings_in_spark_4_3(
    monkeypatch: pytest.MonkeyPatch, spark: str, settings: dict[str, str]
) -> None:
    monkeypatch.setattr("pyspark.__version__", spark)
    options = eoskafka.configure(SparkSession.Builder(), real_time=True)._options
    assert {key: value for key, value in options.items() if "realTimeMode" in key} == settings


def test_spark_4_0_has_no_real_time_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.5")
    with pytest.raises(ConfigurationError, match=r"Spark 4\.0\.5 has no real-time mode"):
        eoskafka.configure(SparkSession.Builder(), real_time=True)


@pytest.mark.parametrize(
    ("delta", "spark", "jar"),
    [
        ("3.3.2", "3.5.8", "delta-spark_2.12"),
        ("4.4.0", "4.0.5", "delta-spark_4.0_2.13"),
        ("4.4.0", "4.1.1-amzn-0", "delta-spark_4.1_2.13"),
        ("4.4.0", "4.2.1", "delta-spark_4.2_2.13"),
    ],
)
def test_deltas_jar_fits_spark(
    monkeypatch: pytest.MonkeyPatch, delta: str, spark: str, jar: str
) -> None:
    installed = {"delta-spark": delta, "pyspark": spark}
    monkeypatch.setattr("importlib.metadata.version", installed.__getitem__)
    assert package() == f"io.delta:{jar}:{delta}"


@pytest.mark.parametrize(
    ("delta", "spark", "said"),
    [
        ("4.4.0", "4.3.0", "has jars for Spark 4.0, 4.1, 4.2, and this is Spark 4.3.0"),
        ("4.4.1", "4.2.0", "Maven Central: pip install 'delta-spark==4.4.0'"),
        ("4.4.1", "3.5.8", "Maven Central: pip install 'delta-spark==3.3.2'"),
    ],
)
def test_where_delta_has_no_jar_the_error_says_why(
    monkeypatch: pytest.MonkeyPatch, delta: str, spark: str, said: str
) -> None:
    installed = {"delta-spark": delta, "pyspark": spark}
    monkeypatch.setattr("importlib.metadata.version", installed.__getitem__)
    with pytest.raises(ConfigurationError, match=said):
        package()


def test_real_time_mode_is_allowed_when_it_is_asked_for() -> None:
    assert REAL_TIME_CHECK not in eoskafka.configure(SparkSession.Builder())._options
    options = eoskafka.configure(SparkSession.Builder(), real_time=True)._options
    assert options[REAL_TIME_CHECK] == "false"


@pytest.mark.parametrize(
    ("master", "given", "wanted"),
    [
        ("local[2]", None, sys.executable),
        ("local-cluster[1,1,512]", None, sys.executable),
        ("local[2]", "/other/python", "/other/python"),
        ("spark://master:7077", None, None),
    ],
)
def test_workers_of_this_machine_have_this_interpreter(
    monkeypatch: pytest.MonkeyPatch, master: str, given: str | None, wanted: str | None
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", given or "")
    if given is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    eoskafka.configure(SparkSession.Builder().master(master))
    assert os.environ.get("PYSPARK_PYTHON") == wanted


@pytest.mark.parametrize(
    "setting",
    [
        # Everything that Kafka's clients take for a password.
        *("sasl.jaas.config", "ssl.key.password", "ssl.keystore.password"),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        *("ssl.truststore.password", "ssl.truststore.certificates"),
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_spark_prints_no_secret_of_a_client(setting: str) -> None:
    assert re.search(session.REDACTED, f"kafka.{setting}")
