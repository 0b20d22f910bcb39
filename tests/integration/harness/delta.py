"""Delta's jars: of what they depend on, only what Spark does not bring."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from harness import maven


@cache
def delta_jars() -> str:
    """For `spark.jars`."""
    found = maven.jars("delta", f"delta.version={version('delta-spark')}", "excludeTransitive=true")
    return ",".join(map(str, found))
