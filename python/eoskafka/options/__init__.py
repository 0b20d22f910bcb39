"""Typed options of a source and a sink, checked before Spark starts.

    payments = Source(bootstrap_servers="broker:9092", subscribe="payments")
    clean = Sink(bootstrap_servers="broker:9092", topic="payments-clean")
    clean.stream(payments.stream(spark), checkpoint="/checkpoints/payments").start()

They are the options of `format("eoskafka")` under Python's names, and `options()` gives them under
Spark's. The table that the connector itself reads (`spec/options.json`) says which names and values
are allowed, and the messages are those of its error conditions (`spec/errors.json`).

| file       | holds                                                   |
|------------|---------------------------------------------------------|
| `sides.py` | `Source` and `Sink`                                     |
| `names.py` | names and values as Spark has them                      |
| `rules.py` | `check`: what the connector would refuse                |
| `table.py` | the table of options, and the errors                    |

Importing this package needs the standard library only.
"""

from __future__ import annotations

from eoskafka.options.rules import check
from eoskafka.options.sides import Sink, Source

__all__ = ["Sink", "Source", "check"]
