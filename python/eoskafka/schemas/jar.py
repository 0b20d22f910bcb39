"""Spark's own Avro functions, and the settings of Avro's library that they need."""

from __future__ import annotations

import re
from typing import Any

from eoskafka import sparks
from eoskafka.errors import ConfigurationError

CLASS = "org.apache.spark.sql.avro.functions"
_ARTIFACT = re.compile(r"(^|[/:\s])spark-avro_\d")

# A value claims how long its strings and arrays are, and Avro's library reserves that much memory
# before it reads them: by default up to 2 GiB, or 16 GiB for an array.
LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": 16 * 1024 * 1024,
    "org.apache.avro.limits.string.maxLength": 16 * 1024 * 1024,
    "org.apache.avro.limits.collectionItems.maxLength": 4 * 1024 * 1024,
}
_LIMITS_CLASS = "org.apache.avro.SystemLimitException"
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"


def package() -> str:
    """The coordinates of the jar with `from_avro` and `to_avro` for the installed pyspark.

    Raises:
        ConfigurationError: Maven Central is not known to have it for this Spark.
    """
    from importlib.metadata import version

    return package_for(version("pyspark"))


def package_for(spark: str) -> str:
    """The same for a version of Spark; what a vendor has added to the version is left out."""
    found = re.match(r"\d+\.\d+\.\d+", spark)
    if found is None or not sparks.OLDEST <= sparks.line(spark) <= sparks.AVRO_NEWEST:
        lines = f"{sparks.text(sparks.OLDEST)} to {sparks.text(sparks.AVRO_NEWEST)}"
        raise ConfigurationError(
            f"eoskafka.schemas does not run on Spark {spark}: Maven Central is known to have "
            f"spark-avro for Spark {lines} only. Use one of these versions, such as "
            f"{sparks.AVRO_RELEASE}"
        )
    return f"org.apache.spark:spark-avro_{sparks.scala(spark)}:{found[0]}"


def has_jar(listed: str) -> bool:
    """Whether a list of `spark.jars` or `spark.jars.packages` has it already."""
    return any(_ARTIFACT.search(entry) for entry in listed.split(","))


def with_limits(options: str) -> str:
    """The options of a JVM with the limits that they lack."""
    return " ".join([options, *missing_limits(options)]).strip()


def missing_limits(options: str) -> list[str]:
    """What `with_limits` adds."""
    return [f"-D{name}={most}" for name, most in LIMITS.items() if not _has(options, name)]


def _has(options: str, name: str) -> bool:
    return re.search(rf"(^|\s)['\"]?-D{re.escape(name)}=\d+", options) is not None


def require() -> None:
    """Check that the running context can decode and encode, and that its JVMs have limits.

    Raises:
        ConfigurationError: it cannot, or a limit is missing.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None, "a classic session has a context"
    coordinates = package_for(context.version)
    jvm: Any = context._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name, what in ((CLASS, "Spark's Avro functions"), (_LIMITS_CLASS, "limits in its Avro")):
        if not _is_loadable(loader, name):
            raise ConfigurationError(
                f"this session lacks {what}. Nothing was read or written. Build it with "
                "eoskafka.configure(builder, avro=True), or start it with spark-submit --packages "
                f"{coordinates}. Releases of Spark with Avro 1.11.2 or older have no limits"
            )
    lacking = without_limits(
        all((jvm.java.lang.System.getProperty(name) or "").isdigit() for name in LIMITS),
        None if context._jsc.sc().isLocal() else context.getConf().get(EXECUTOR_OPTIONS, ""),
    )
    if lacking:
        wanted = with_limits("")
        raise ConfigurationError(
            "without a limit, one corrupt value can take all memory of an executor, and "
            f"{' and '.join(lacking)} of this session set none. Nothing was read or written. Build "
            "the session with eoskafka.configure(builder, avro=True), or start it with "
            f"spark-submit {' '.join(f'--conf {each}=' + repr(wanted) for each in lacking)}"
        )


def without_limits(driver_has_them: bool, of_executors: str | None) -> list[str]:
    """The settings that lack limits.

    Args:
        of_executors: the Java options of executors; None if the driver's JVM is the only one.
    """
    lacking = [] if driver_has_them else [DRIVER_OPTIONS]
    if of_executors is not None and with_limits(of_executors) != of_executors:
        lacking.append(EXECUTOR_OPTIONS)
    return lacking


def _is_loadable(loader: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        return loader.loadClass(name) is not None
    except Py4JJavaError:
        return False
