"""A group's offsets: where a query stands, and how to move it on purpose.

| file                   | holds                                                              |
|------------------------|--------------------------------------------------------------------|
| `model.py`             | what the functions return                                          |
| `standing.py`          | where a group stands: `show` and `groups`                          |
| `target.py`            | the offsets that a user asks for                                   |
| `commit.py`            | the check that the query is stopped, and the commit of its offsets |
| `move.py`              | `reset`: a query continues elsewhere                               |
| `adoption.py`          | `adopt`: a query gets the offsets of its group                     |
| `candidate.py`         | what the checkpoint of that query says                             |
| `adoption_plan.py`     | where it continues, and which offsets it is given                  |
| `adoption_refusals.py` | offsets that it is not given                                       |
| `adoption_by_log.py`   | a query whose log says where it continues: it needs no offsets     |

The offsets carry stamps (`eoskafka.stamps`) that say whose they are. A query continues only from
its own offsets. So `reset` keeps the stamps, and `adopt` writes them for the query that gets the
offsets of another application.
"""

from __future__ import annotations

from eoskafka.offsets.adoption import adopt
from eoskafka.offsets.model import Adoption, Move, Position, Situation, Standing, State
from eoskafka.offsets.move import reset
from eoskafka.offsets.standing import groups, show

__all__ = [
    "Adoption",
    "Move",
    "Position",
    "Situation",
    "Standing",
    "State",
    "adopt",
    "groups",
    "reset",
    "show",
]
