"""What a topic of dead letters holds, and how its records go back to their topics, once.

| file          | holds                                                                         |
|---------------|-------------------------------------------------------------------------------|
| `records.py`  | the records of such a topic: which offsets it has, and what each record says   |
| `progress.py` | what a group's offsets say about what was replayed                            |
| `targets.py`  | the topic to which each record goes, and which records cannot go there        |
| `run.py`      | `replay`: the transactions                                                    |
"""

from __future__ import annotations

from eoskafka.replay.records import DeadLetter, newest
from eoskafka.replay.run import replay

__all__ = ["DeadLetter", "newest", "replay"]
