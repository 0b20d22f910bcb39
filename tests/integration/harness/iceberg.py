"""Iceberg tables: the jar, and an application whose catalog `lake` is a folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from eoskafka import sparks

from harness import maven

VERSION = "1.12.0"


@cache
def iceberg_jar(spark: str) -> str:
    """For `spark.jars`: the one for a version of Spark."""
    build = f"{sparks.text(sparks.line(spark))}_{sparks.scala(spark)}"
    (jar,) = maven.jars(
        "iceberg",
        f"iceberg.spark={build}",
        f"iceberg.version={VERSION}",
        "excludeTransitive=true",
        folder=Path(__file__).parents[3] / "build" / f"iceberg-{build}-{VERSION}-jars",
    )
    return str(jar)


def settings(spark: str, warehouse: Path) -> dict[str, str]:
    """Spark's settings for tables `lake.x.y` in a folder."""
    return {
        "spark.jars": iceberg_jar(spark),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }
