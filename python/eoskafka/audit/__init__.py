"""Proof of an outcome that shares no code with the connector.

| file         | holds                                                                 |
|--------------|-----------------------------------------------------------------------|
| `reader.py`  | a `read_committed` reader (kafka-python) of a whole topic, bounded      |
| `compare.py` | input records against output records: lost, duplicated, altered, ...    |
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
