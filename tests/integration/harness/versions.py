"""What differs between the Spark versions that these tests run on; nowhere else."""

from __future__ import annotations

import pyspark
import pytest

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

# The version that the jars of benchmarks and of Spark's own connector are built for.
IS_MAIN = SPARK == (4, 2)
# Spark 4.0 has no real-time mode.
HAS_REAL_TIME = SPARK >= (4, 1)
needs_real_time = pytest.mark.skipif(not HAS_REAL_TIME, reason="Spark 4.0 has no real-time mode")
