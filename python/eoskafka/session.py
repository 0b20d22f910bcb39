"""Set-up of a Spark session: the connector's jar and its plugin.

Both are static settings: Spark reads them when the session's JVM and context start. The plugin
(`spark.plugins`) closes an executor's idle clients at its end, and lets tasks of a shared group ask
their driver. `spark.jars` is enough for the driver too, as long as the JVM is started by the
builder: pyspark hands the builder's options to spark-submit, which puts the jars into the driver's
class loader. In a JVM that runs already (spark-submit, or a second session of one Python process)
it is too late for that, and this module says so, where Spark would fail with a
ClassNotFoundException. With Spark Connect that JVM is the server's: see `_connect`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eoskafka import _connect, _jar, _launcher, failures, sparks
from eoskafka._version import __version__
from eoskafka.delta import (
    CATALOG,
    CATALOG_CLASS,
    EXTENSION_CLASS,
    EXTENSIONS,
    JARS,
    PACKAGES,
    has_jar,
    package,
)
from eoskafka.errors import ConfigurationError
from eoskafka.schemas import jar as avro_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGIN_CLASS = _connect.PLUGIN_CLASS

# Its jar under any version, or with none in its name.
_CONNECTOR = re.compile(r"eoskafka(-\d[^-]*)?(-thin)?\.jar")

REAL_TIME_CHECK = "spark.sql.streaming.realTimeMode.allowlistCheck"
REDACTION = "spark.redaction.regex"
# Spark prints a source's options in plans and errors. Its own expression, and what it misses of
# Kafka's secrets: keys and certificates in PEM, and log-in settings that need not hold the word
# "password".
REDACTED = (
    r"(?i)secret|password|token|access[.]?key"
    r"|jaas[.]config|keystore[.]key|keystore[.]certificate|passphrase|truststore[.]certificates"
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


def configure(
    builder: SparkSession.Builder,
    *,
    delta: bool = False,
    real_time: bool = False,
    avro: bool = False,
) -> SparkSession.Builder:
    """Add the connector to a session that is about to be built, and return the same builder.

    From then on, the connector's errors are also those of `eoskafka.errors`.

    `spark.jars` and `spark.plugins` are appended to, never overwritten, and so is
    `spark.redaction.regex`, to keep Kafka's secrets out of plans. Calling it twice changes nothing.

    With Spark Connect the server must have the connector, and a client cannot add it. In that case,
    only the settings of real-time mode are added, and an existing session is checked as `check`
    does it.

    Args:
        builder: of a session in this process, or of a client of Spark Connect.
        delta: add Delta Lake as well: its extension, its catalog, and its jar by
            `spark.jars.packages` (from Maven Central) unless `spark.jars` or the JVM has it.
        real_time: allow `trigger(realTime=...)` with this connector, which is not on Spark's own
            list of sources and sinks for real-time mode, and switch off the asynchronous progress
            tracking that Spark 4.3 has there by default.
        avro: add what `eoskafka.schemas` needs: the jar of Spark's Avro functions by
            `spark.jars.packages` (from Maven Central) unless `spark.jars` or the JVM has it, and
            limits of Avro's library to the Java options of driver and executors.

    Raises:
        JarError: as `jar_path`.
        ConfigurationError: a session, a JVM or a server of Spark Connect runs already and lacks the
            connector; delta-spark is not installed; Delta or Spark's Avro functions have no jar for
            this Spark, or are to be added through Connect; a session runs already and lacks what
            `avro` adds; the session has another catalog; this Spark has no real-time mode.
    """
    failures.install()
    options: dict[str, str] = getattr(builder, "_options", {})
    if _connect.server_url(options) is not None:
        _configure_client(builder, delta, real_time, avro)
        return builder
    jar = _listed_jar()
    wanted = {JARS: jar, "spark.plugins": PLUGIN_CLASS}
    if delta:
        wanted[EXTENSIONS] = EXTENSION_CLASS
    running = _running_settings()
    if real_time:
        _allow_real_time(builder)
    if running is not None:
        _refuse_if_missing(wanted, running)
        if avro:
            avro_jar.require()
        return builder
    if _jvm_runs():
        defaults = _defaults_of_running_jvm(jar)
        if not _has(defaults(JARS), jar):
            # It is there under another name, or among Spark's own jars.
            del wanted[JARS]
    else:
        in_file = _launcher.file_settings()

        def defaults(key: str) -> str:
            return in_file.get(key, "")

    def present(key: str) -> str:
        return options.get(key) or defaults(key)

    if present("spark.master").startswith("local"):
        # On this machine workers can have this interpreter, and with it its packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    if _has_connector(present(JARS)):
        wanted.pop(JARS, None)
    settings = {key: _append(present(key), value) for key, value in wanted.items()}
    if delta:
        settings |= _of_delta(present)
    if avro:
        settings |= _of_avro(settings, present)
    redacted = present(REDACTION)
    if REDACTED not in redacted:
        settings[REDACTION] = f"{redacted}|{REDACTED}" if redacted else REDACTED
    if not _jvm_runs():
        _refuse_hidden(settings)
    for key, value in settings.items():
        builder.config(key, value)
    return builder


def check(spark: SparkSession) -> None:
    """Check that a session has the connector's jar, of this package's version, and its plugin.

    Of a session of Spark Connect it asks the server. Nothing is changed.

    Args:
        spark: a session that runs.

    Raises:
        ConfigurationError: something is missing. The message says how to set it.
    """
    failures.install()
    if _connect.is_session(spark):
        _connect.check(spark)
        return
    running = _running_settings()
    assert running is not None, "a classic session has a context"
    _refuse_if_missing({JARS: _listed_jar(), "spark.plugins": PLUGIN_CLASS}, running)


def _configure_client(
    builder: SparkSession.Builder, delta: bool, real_time: bool, avro: bool
) -> None:
    """What a client of Spark Connect can set itself; the rest is asked of its server."""
    import pyspark.sql.connect.session  # noqa: F401

    failures.install()
    if delta:
        raise ConfigurationError(
            "Delta Lake cannot be added through Spark Connect: its extension and its catalog are "
            f"settings of the server. Start the server with --packages {package()} "
            f"--conf {EXTENSIONS}={EXTENSION_CLASS} --conf {CATALOG}={CATALOG_CLASS}, and leave "
            "delta=True out"
        )
    if avro:
        raise ConfigurationError(
            "eoskafka.schemas does not run with Spark Connect, so there is nothing that avro=True "
            "could add. Use a classic session"
        )
    if real_time:
        builder.config(REAL_TIME_CHECK, "false")
        # The server may be of another version than the client, and ignores what it does not know.
        builder.config(sparks.ASYNC_PROGRESS, "false")
    session = _connect.active_session()
    if session is not None:
        _connect.check(session)


def _allow_real_time(builder: SparkSession.Builder) -> None:
    """Settings of a session, not of its context: they take effect later too."""
    import pyspark

    sparks.require_real_time(pyspark.__version__)
    builder.config(REAL_TIME_CHECK, "false")
    if sparks.tracks_asynchronously(pyspark.__version__):
        builder.config(sparks.ASYNC_PROGRESS, "false")


def _listed_jar() -> str:
    """The jar as `spark.jars` should have it.

    Where this package is in an archive (spark-submit --py-files), Spark's JVM was started with it.
    """
    if _jar.in_archive():
        return _jar.jar_file().name
    return str(jar_path())


def _of_delta(present: Callable[[str], str]) -> dict[str, str]:
    """Delta's catalog, and its jar where that has to be fetched."""
    catalog = present(CATALOG)
    if catalog not in ("", CATALOG_CLASS):
        raise ConfigurationError(
            f"{CATALOG} is {catalog}, but Delta needs {CATALOG_CLASS} there. Use only one of them "
            "in this session, or give the other catalog another name"
        )
    found = {CATALOG: CATALOG_CLASS}
    if any(has_jar(key, present(key)) for key in (JARS, PACKAGES)):
        return found
    if not _jvm_runs():
        return {**found, PACKAGES: _append(present(PACKAGES), package())}
    _refuse_if_not_loadable(EXTENSION_CLASS, "Delta's jar", package)
    return found


def _of_avro(settings: dict[str, str], present: Callable[[str], str]) -> dict[str, str]:
    """Spark's Avro functions where they have to be fetched, and the limits of Avro's library."""
    executors, driver = avro_jar.EXECUTOR_OPTIONS, avro_jar.DRIVER_OPTIONS
    found = {executors: avro_jar.with_limits(present(executors))}
    if not _jvm_runs():
        found[driver] = avro_jar.with_limits(present(driver))
    if any(avro_jar.has_jar(present(key)) for key in (JARS, PACKAGES)):
        return found
    if _jvm_runs():
        _refuse_if_not_loadable(avro_jar.CLASS, "Spark's Avro functions", avro_jar.package)
        return found
    packages = settings.get(PACKAGES, present(PACKAGES))
    return {**found, PACKAGES: _append(packages, avro_jar.package())}


def _refuse_if_not_loadable(class_name: str, what: str, coordinates: Callable[[], str]) -> None:
    if not _is_loadable(class_name):
        raise ConfigurationError(
            "Spark's JVM was started before eoskafka.configure was called and does not have "
            f"{what}. With spark-submit, add --packages {coordinates()}"
        )


def _refuse_hidden(settings: dict[str, str]) -> None:
    """What is set here must not be hidden by what spark-submit is told besides."""
    given = _launcher.argument_settings()
    how = {}
    for key in settings.keys() & given.keys():
        if key.endswith("JavaOptions"):
            # The other options are not shown: one of them may be a password.
            if missing := avro_jar.missing_limits(given[key]):
                how[key] = f"add {' '.join(missing)} to {key}"
            continue
        separator = "|" if key == REDACTION else ","
        ours, theirs = (value.split(separator) for value in (settings[key], given[key]))
        if key == CATALOG:
            theirs = theirs if theirs == ours else []
        if lacking := [entry for entry in ours if entry not in theirs]:
            how[key] = f"set {key} to {separator.join([*theirs, *lacking])}"
    if how:
        raise ConfigurationError(
            f"PYSPARK_SUBMIT_ARGS sets {', '.join(sorted(how))}, which takes precedence over "
            f"eoskafka.configure. In this variable, {'; '.join(how[key] for key in sorted(how))}; "
            "or remove these settings from it and set them on the builder"
        )


def _append(present: str, value: str) -> str:
    """`value` added to a comma-separated list, unless it is in there."""
    if _has(present, value):
        return present
    return ",".join([*filter(None, [present.strip(", ")]), value])


def _has(present: str, value: str) -> bool:
    """Whether a comma-separated list has `value`; a jar may be there under another URL."""
    name = value.rpartition("/")[2]
    return any(entry.strip().rpartition("/")[2] == name for entry in present.split(","))


def _has_connector(jars: str) -> bool:
    """Whether a list has the connector's jar, under whatever name.

    Raises ConfigurationError if it is of another version.
    """
    for entry in filter(None, (entry.strip() for entry in jars.split(","))):
        path = Path(entry.removeprefix("file://").removeprefix("local://"))
        if not _CONNECTOR.fullmatch(path.name) or path == _jar.jar_file():
            continue
        found = __version__
        if path.is_file():
            found = _jar.build_properties(path).get("version", "")
        if found != __version__:
            raise ConfigurationError(
                f"spark.jars lists {entry}, the connector's jar of version {found}, and this "
                f"package is {__version__}: list the jar that `eoskafka jar-path` prints"
            )
        return True
    return False


def _running_settings() -> Callable[[str], str] | None:
    """Look up a setting of the SparkContext that runs in this process; None if there is none."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return None
    conf = context.getConf()
    return lambda key: conf.get(key, "") or ""


def _refuse_if_missing(wanted: dict[str, str], running: Callable[[str], str]) -> None:
    there = _version_in_jvm()
    missing = {
        key: value
        for key, value in wanted.items()
        if not _has(running(key), value) and not (key == JARS and there)
    }
    if missing:
        settings = ", ".join(missing)
        what = "Delta Lake" if list(missing) == [EXTENSIONS] else "the connector"
        how = " ".join(
            f"--conf {key}={_append(running(key), value)}" for key, value in missing.items()
        )
        raise ConfigurationError(
            f"the running Spark session lacks {what} in {settings}, and these settings have "
            "no effect once it runs. Stop it, start a new Python process and call "
            "eoskafka.configure(SparkSession.builder) before getOrCreate(); or start it with "
            f"spark-submit {how}"
        )


def _defaults_of_running_jvm(jar: str) -> Callable[[str], str]:
    """Settings that a JVM started earlier brings along (spark-submit's --conf, spark-defaults).

    Raises ConfigurationError if there is such a JVM and the plugin's class is not in it.
    """
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    conf = SparkConf()
    if _version_in_jvm() is None:
        jars = _append(conf.get("spark.jars", "") or "", jar)
        raise ConfigurationError(
            "Spark's JVM was started before eoskafka.configure was called and does not have the "
            "connector's jar. With spark-submit, add "
            f"--conf spark.jars={jars}. In a notebook or a script, start a new Python process and "
            "call eoskafka.configure(SparkSession.builder) before the first session."
        )
    return lambda key: conf.get(key, "") or ""


def _jvm_runs() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _version_in_jvm() -> str | None:
    """The version of the jar that the JVM has; None if it has none.

    Raises ConfigurationError if it is not this package's.
    """
    loader = _class_loader()
    file = None if loader is None else loader.getResourceAsStream(_jar.BUILD_PROPERTIES)
    if file is None:
        return None
    text = bytes(file.readAllBytes()).decode("utf-8")
    found = _jar.properties_of(text).get("version", "")
    if found != __version__:
        raise ConfigurationError(
            f"Spark's JVM has the connector's jar of version {found}, and this package is "
            f"{__version__}: use the jar that `eoskafka jar-path` prints"
        )
    return found


def _is_loadable(class_name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    loader = _class_loader()
    try:
        return loader is not None and loader.loadClass(class_name) is not None
    except Py4JJavaError:
        return False


def _class_loader() -> Any:
    from pyspark import SparkContext

    if SparkContext._jvm is None:
        return None
    return SparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
