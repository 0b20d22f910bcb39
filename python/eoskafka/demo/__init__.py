"""`eoskafka demo`: kills a job repeatedly, and proves that no record was lost or duplicated.

With `--compare` the built-in connector is killed in the same way, and its result is shown as well.

| file              | holds                                                             |
|-------------------|-------------------------------------------------------------------|
| `run.py`          | `run`: cluster, records, job, kills, audit, in this order         |
| `records.py`      | the input: lines of source files, and how they get into the topic |
| `job.py`          | the Spark job, a program of its own                               |
| `launch.py`       | `SparkJob`: its processes, its environment, how far it is         |
| `processes.py`    | which processes belong to a job, orphans included                 |
| `killer.py`       | when and whom to kill, and why a kill counts                      |
| `signs.py`        | what shows that a connector has unfinished output                 |
| `follow.py`       | what a consumer sees of the output while the job runs             |
| `interruption.py` | Ctrl-C, also where a library takes it for something else          |
| `proof.py`        | what the output should be, and the verdict                        |
| `picture.py`      | the duplicates of each connector, drawn                           |
"""

from __future__ import annotations

from eoskafka.demo.errors import DemoError
from eoskafka.demo.follow import State
from eoskafka.demo.proof import Outcome
from eoskafka.demo.run import Settings, Watcher, run

__all__ = ["DemoError", "Outcome", "Settings", "State", "Watcher", "run"]
