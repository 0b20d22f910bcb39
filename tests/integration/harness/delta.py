"""Delta's jars: of what they depend on, only what Spark does not bring."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from eoskafka import delta

from harness import maven


@cache
def delta_jars() -> str:
    """For `spark.jars`: those that fit the installed pyspark."""
    _, artifact, version = delta.package().split(":")
    found = maven.jars(
        "delta",
        f"delta.artifact={artifact}",
        f"delta.version={version}",
        "includeScope=runtime",
        "includeGroupIds=io.delta,io.unitycatalog",
        folder=Path(__file__).parents[3] / "build" / f"{artifact}-{version}-jars",
    )
    return ",".join(map(str, found))
