"""Open transactions: whose they are, which readers they hold up, and how to end one.

| file          | holds                                                              |
|---------------|--------------------------------------------------------------------|
| `model.py`    | what the functions return; what a transactional id says            |
| `listing.py`  | `transactions`: what is open                                       |
| `blocking.py` | `blocked` and `describe`: which readers wait, and for which one    |
| `decided.py`  | whether a query has decided on a writer's transaction              |
| `ending.py`   | `abort`: the end of a transaction that is not decided              |

`read_committed` readers of a partition read no further than its last stable offset, where the
oldest open transaction over it begins.
"""

from __future__ import annotations

from eoskafka.transactions.blocking import blocked, describe
from eoskafka.transactions.ending import DEFAULT_DECISION_TOPIC, abort
from eoskafka.transactions.listing import transactions
from eoskafka.transactions.model import Blocked, Kind, Transaction

__all__ = [
    "DEFAULT_DECISION_TOPIC",
    "Blocked",
    "Kind",
    "Transaction",
    "abort",
    "blocked",
    "describe",
    "transactions",
]
