"""What differs between the Spark versions that these tests run on; nowhere else."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest
from eoskafka.bench.peers import BUILT_IN_RELEASES
from eoskafka.sparks import line
from pyspark.sql.streaming.listener import StreamingQueryProgress

SPARK = line(pyspark.__version__)

# Maven Central has no built-in connector for Spark 4.3.
HAS_BUILT_IN = SPARK in BUILT_IN_RELEASES
# Spark 3.5 and 4.0 have no real-time mode.
HAS_REAL_TIME = SPARK >= (4, 1)
# Before Spark 4.2 a client of Spark Connect cannot ask for it.
HAS_REAL_TIME_THROUGH_CONNECT = SPARK >= (4, 2)
# Spark 4.1 introduced declarative pipelines.
HAS_PIPELINES = SPARK >= (4, 1)
# PyPI has pyspark-client for some patch releases only.
HAS_CLIENT_PACKAGE = pyspark.__version__ == "4.2.0"
# On Spark 3.5 another thread than the task's reads the input of a Python function, and such a plan
# is in epoch scope.
HAS_PYTHON_IN_TASK_SCOPE = SPARK >= (4, 0)
# From Spark 4.1 on a union of branches with like partitions reads these in one task. Before, each
# branch has tasks of its own, so such a union of two sources is in task scope.
UNION_JOINS_PARTITIONS = SPARK >= (4, 1)
# Before Spark 4.2 an expansion without generated code reads on before it hands out its last row.
EXPANDS_ROW_BY_ROW = SPARK >= (4, 2)
# From Spark 4.2 on a query can give its sources names, and its log has a second format for these.
HAS_NAMED_SOURCES = SPARK >= (4, 2)
# Spark's class that writes a checkpoint's logs by Hadoop's FileSystem. Spark 4.1 has moved it.
FILE_SYSTEM_MANAGER = (
    f"org.apache.spark.sql.execution.streaming.{'checkpointing.' if SPARK >= (4, 1) else ''}"
    "FileSystemBasedCheckpointFileManager"
)

needs_built_in = pytest.mark.skipif(
    not HAS_BUILT_IN, reason="Maven Central has no built-in connector for Spark 4.3"
)
needs_avro = pytest.mark.skipif(
    not HAS_BUILT_IN, reason="Maven Central has no spark-avro for Spark 4.3"
)
needs_real_time = pytest.mark.skipif(
    not HAS_REAL_TIME, reason="Spark 3.5 and 4.0 have no real-time mode"
)
needs_python_in_task_scope = pytest.mark.skipif(
    not HAS_PYTHON_IN_TASK_SCOPE,
    reason="on Spark 3.5 plans with Python functions are in epoch scope",
)
needs_pipelines = pytest.mark.skipif(
    not HAS_PIPELINES, reason="before Spark 4.1 there are no declarative pipelines"
)
needs_named_sources = pytest.mark.skipif(
    not HAS_NAMED_SOURCES, reason="before Spark 4.2 sources have no names"
)


def reports(query: Any) -> list[StreamingQueryProgress]:
    """A query's `recentProgress`, whose entries Spark 3.5 has as plain dictionaries."""
    return [
        StreamingQueryProgress.fromJson(each) if type(each) is dict else each
        for each in query.recentProgress
    ]
