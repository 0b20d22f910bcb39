"""Proof of an outcome that shares no code with the connector in Spark's JVM.

| file           | holds                                                                  |
|----------------|------------------------------------------------------------------------|
| `reader.py`    | a `read_committed` reader (kafka-python) of a whole topic, bounded     |
| `result.py`    | what a comparison has found, with either engine                        |
| `compare.py`   | input records against output records: lost, duplicated, altered, ...   |
| `verify.py`    | the same for topics of any size, by digests of records                 |
| `request.py`   | what `verify.py` is to verify                                          |
| `record_id.py` | what identifies a record, and its digest                               |
| `proof.py`     | the digests of all records, and their comparison                       |
| `slices.py`    | which records of a topic that is about, and a fast reader (librdkafka) |
| `spill.py`     | digests on disk, in buckets that fit into memory                       |
| `tables.py`    | what should have come out, as a table (pyarrow)                        |

`reader.py`, `result.py`, `compare.py` and `request.py` need the base install only, and the others
`eoskafka[verify]`.
"""

from __future__ import annotations

from eoskafka.audit.compare import compare
from eoskafka.audit.reader import Record, UndecidedError, read_committed
from eoskafka.audit.result import Example, Fault, Finding, Report, Verdict

__all__ = [
    "Example",
    "Fault",
    "Finding",
    "Record",
    "Report",
    "UndecidedError",
    "Verdict",
    "compare",
    "read_committed",
]
