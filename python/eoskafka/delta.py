"""Delta Lake in the same session: its settings, and its jar where a cluster does not bring it."""

from __future__ import annotations

from eoskafka.errors import ConfigurationError

EXTENSION_CLASS = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG_CLASS = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
EXTENSIONS = "spark.sql.extensions"
CATALOG = "spark.sql.catalog.spark_catalog"
PACKAGES = "spark.jars.packages"
JARS = "spark.jars"


def package() -> str:
    """The coordinates of the jar that fits the installed delta-spark and pyspark.

    Raises:
        ConfigurationError: delta-spark is not installed.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        delta = version("delta-spark")
    except PackageNotFoundError as error:
        raise ConfigurationError(
            "delta-spark is not installed, and says which jar fits: pip install 'eoskafka[delta]', "
            "or add Delta's jar to spark.jars"
        ) from error
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{delta}"


def has_jar(setting: str, listed: str) -> bool:
    """Whether a list of `spark.jars` or `spark.jars.packages` has Delta already."""
    entries = [entry.strip() for entry in listed.split(",")]
    if setting == PACKAGES:
        return any(entry.startswith("io.delta:delta-spark_") for entry in entries)
    return any(entry.rpartition("/")[2].startswith("delta-spark_") for entry in entries)
