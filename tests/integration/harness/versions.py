"""What differs between the Spark versions that these tests run on; nowhere else."""

from __future__ import annotations

import pyspark
import pytest

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

# Maven Central has no built-in connector for Spark 4.3.
HAS_BUILT_IN = SPARK <= (4, 2)
# Spark 4.0 has no real-time mode.
HAS_REAL_TIME = SPARK >= (4, 1)
needs_built_in = pytest.mark.skipif(
    not HAS_BUILT_IN, reason="Maven Central has no built-in connector for Spark 4.3"
)
needs_real_time = pytest.mark.skipif(not HAS_REAL_TIME, reason="Spark 4.0 has no real-time mode")
