"""Set-up of a Spark session: the connector's jar and its plugin.

Both are static settings: Spark reads them when the session's JVM and context start. The plugin
(`spark.plugins`) closes an executor's idle clients at its end, and lets tasks of a shared group ask
their driver. `spark.jars` is enough for the driver too, as long as the JVM is started by the
builder: pyspark hands the builder's options to spark-submit, which puts the jars into the driver's
class loader. In a JVM that runs already (spark-submit, or a second session of one Python process)
it is too late for that, and this module says so, where Spark would fail with a
ClassNotFoundException.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eoskafka import _jar, failures
from eoskafka.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGIN_CLASS = "io.eoskafka.EosKafkaPlugin"

REDACTION = "spark.redaction.regex"
# Spark prints a source's options in plans and errors. Its own expression, and what it misses of
# Kafka's secrets: keys in PEM, and log-in settings that need not hold the word "password".
REDACTED = (
    r"(?i)secret|password|token|access[.]?key"
    r"|jaas[.]config|keystore[.]key|truststore[.]certificates"
)


def jar_path(thin: bool = False) -> Path:
    """The path of the connector's jar.

    Args:
        thin: the jar with kafka-clients under its own name, for third-party Kafka log-in plug-ins
            that implement its interfaces. It is built on demand and only in a checkout.

    Raises:
        JarError: the jar is missing, of another version, or (in a checkout) older than its sources.
    """
    if thin:
        return _jar.ensure_built(thin=True)
    jar = _jar.jar_file()
    _jar.check(jar)
    return jar


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the connector to a session that is about to be built, and return the same builder.

    From then on its errors are those of `eoskafka.errors` too.

    `spark.jars` and `spark.plugins` are appended to, never overwritten, and so is
    `spark.redaction.regex`, to keep Kafka's secrets out of plans. Calling it twice changes nothing.

    Raises:
        JarError: as `jar_path`.
        ConfigurationError: a session or a JVM runs already and lacks the connector.
    """
    failures.install()
    jar = str(jar_path())
    wanted = {"spark.jars": jar, "spark.plugins": PLUGIN_CLASS}
    running = _running_settings()
    if running is not None:
        _refuse_if_missing(wanted, running)
        return builder
    defaults = _defaults_of_running_jvm(jar)
    options: dict[str, str] = getattr(builder, "_options", {})
    for key, value in wanted.items():
        builder.config(key, _append(options.get(key) or defaults(key), value))
    redacted = options.get(REDACTION) or defaults(REDACTION)
    if REDACTED not in redacted:
        builder.config(REDACTION, f"{redacted}|{REDACTED}" if redacted else REDACTED)
    return builder


def _append(present: str, value: str) -> str:
    """`value` added to a comma-separated list, unless it is in there."""
    if _has(present, value):
        return present
    return ",".join([*filter(None, [present.strip(", ")]), value])


def _has(present: str, value: str) -> bool:
    """Whether a comma-separated list has `value`; a jar may be there under another URL."""
    name = value.rpartition("/")[2]
    return any(entry.strip().rpartition("/")[2] == name for entry in present.split(","))


def _running_settings() -> Callable[[str], str] | None:
    """Look up a setting of the SparkContext that runs in this process; None if there is none."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return None
    conf = context.getConf()
    return lambda key: conf.get(key, "") or ""


def _refuse_if_missing(wanted: dict[str, str], running: Callable[[str], str]) -> None:
    missing = {key: value for key, value in wanted.items() if not _has(running(key), value)}
    if missing:
        settings = ", ".join(missing)
        how = " ".join(
            f"--conf {key}={_append(running(key), value)}" for key, value in missing.items()
        )
        raise ConfigurationError(
            f"the running Spark session lacks the connector in {settings}, and these settings have "
            "no effect once it runs. Stop it, start a new Python process and call "
            "eoskafka.configure(SparkSession.builder) before getOrCreate(); or start it with "
            f"spark-submit {how}"
        )


def _defaults_of_running_jvm(jar: str) -> Callable[[str], str]:
    """Settings that a JVM started earlier brings along (spark-submit's --conf, spark-defaults).

    Raises ConfigurationError if there is such a JVM and the plugin's class is not in it.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return lambda key: ""
    SparkContext._ensure_initialized()
    conf = SparkConf()
    if not _is_loadable(PLUGIN_CLASS):
        jars = _append(conf.get("spark.jars", "") or "", jar)
        raise ConfigurationError(
            "Spark's JVM was started before eoskafka.configure was called and does not have the "
            "connector's jar. With spark-submit, add "
            f"--conf spark.jars={jars}. In a notebook or a script, start a new Python process and "
            "call eoskafka.configure(SparkSession.builder) before the first session."
        )
    return lambda key: conf.get(key, "") or ""


def _is_loadable(class_name: str) -> bool:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    try:
        thread = SparkContext._jvm.java.lang.Thread.currentThread()  # type: ignore[union-attr]
        thread.getContextClassLoader().loadClass(class_name)
    except Py4JJavaError:
        return False
    return True
