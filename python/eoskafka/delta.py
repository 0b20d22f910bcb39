"""Delta Lake in the same session: its settings, and its jar where a cluster does not bring it."""

from __future__ import annotations

from eoskafka import sparks
from eoskafka.errors import ConfigurationError

EXTENSION_CLASS = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG_CLASS = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
EXTENSIONS = "spark.sql.extensions"
CATALOG = "spark.sql.catalog.spark_catalog"
PACKAGES = "spark.jars.packages"
JARS = "spark.jars"

# The releases of delta-spark that are in Maven Central, and the Spark versions of their artifacts.
# pip has releases that Maven Central lacks, such as 4.4.1.
_ARTIFACTS = {"3.3.2": {(3, 5)}, "4.4.0": {(4, 0), (4, 1), (4, 2)}}


def package() -> str:
    """The coordinates of the jar that fits the installed delta-spark and pyspark.

    Raises:
        ConfigurationError: delta-spark is not installed, or has no jar for this Spark.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        delta = version("delta-spark")
    except PackageNotFoundError as error:
        raise ConfigurationError(
            "delta-spark, which determines the right jar, is not installed: pip install "
            "'eoskafka[delta]', or add Delta's jar to spark.jars"
        ) from error
    spark = sparks.line(version("pyspark"))
    if delta not in _ARTIFACTS:
        raise ConfigurationError(
            f"delta-spark {delta} has no jar that is known to be in Maven Central: pip install "
            f"'delta-spark=={newest_for(spark) or max(_ARTIFACTS)}', or add Delta's jar to "
            "spark.jars"
        )
    if spark not in _ARTIFACTS[delta]:
        fits = ", ".join(map(sparks.text, sorted(_ARTIFACTS[delta])))
        raise ConfigurationError(
            f"delta-spark {delta} has jars for Spark {fits}, and this is Spark "
            f"{version('pyspark')}. Use one of those Spark versions with Delta Lake, or add a jar "
            "of Delta that was built for this Spark version to spark.jars"
        )
    of_spark = f"{sparks.text(spark)}_" if spark >= (4, 0) else ""
    return f"io.delta:delta-spark_{of_spark}{sparks.scala(version('pyspark'))}:{delta}"


def newest_for(spark: tuple[int, int]) -> str | None:
    """The newest delta-spark that has a jar for a Spark version, or None."""
    return max((delta for delta, fits in _ARTIFACTS.items() if spark in fits), default=None)


def has_jar(setting: str, listed: str) -> bool:
    """Whether a list of `spark.jars` or `spark.jars.packages` has Delta already."""
    entries = [entry.strip() for entry in listed.split(",")]
    if setting == PACKAGES:
        return any(entry.startswith("io.delta:delta-spark_") for entry in entries)
    return any(entry.rpartition("/")[2].startswith("delta-spark_") for entry in entries)
