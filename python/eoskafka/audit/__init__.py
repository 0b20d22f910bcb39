"""Proof of an outcome that shares no code with the connector in Spark's JVM.

| file         | holds                                                                 |
|--------------|-----------------------------------------------------------------------|
| `reader.py`  | a `read_committed` reader (kafka-python) of a whole topic, bounded      |
| `compare.py` | input records against output records: lost, duplicated, altered, ...    |
| `verify.py`  | the same for topics of any size, by digests of records                  |
| `slices.py`  | which records of a topic that is about, and a fast reader (librdkafka)  |
| `spill.py`   | digests on disk, in buckets that fit into memory                        |
| `tables.py`  | what should have come out, as a table (pyarrow)                         |

The first two need nothing but the base install, the others `eoskafka[verify]`.
"""

from __future__ import annotations

from eoskafka.audit.compare import Fault, Finding, Report, compare
from eoskafka.audit.reader import Record, UndecidedError, read_committed

__all__ = [
    "Fault",
    "Finding",
    "Record",
    "Report",
    "UndecidedError",
    "compare",
    "read_committed",
]
