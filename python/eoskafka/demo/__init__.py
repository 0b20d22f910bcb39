"""`eoskafka demo`: a job that is killed again and again, and the proof that nothing came of it.

| file              | holds                                                             |
|-------------------|-------------------------------------------------------------------|
| `run.py`          | `run`: cluster, records, job, kills, audit, in this order         |
| `records.py`      | the input: lines of source files, and how they get into the topic |
| `job.py`          | the Spark job, a program of its own                               |
| `launch.py`       | `SparkJob`: its processes, its environment, how far it is         |
| `processes.py`    | which processes belong to a job, orphans included                 |
| `killer.py`       | when and whom to kill, and why a kill counts                      |
| `interruption.py` | Ctrl-C, also where a library takes it for something else          |
| `proof.py`        | what the output should be, and the verdict                        |
"""

from __future__ import annotations

from eoskafka.demo.errors import DemoError
from eoskafka.demo.proof import Outcome
from eoskafka.demo.run import Settings, Watcher, run

__all__ = ["DemoError", "Outcome", "Settings", "Watcher", "run"]
