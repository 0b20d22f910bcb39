"""Whether this machine, its Spark and a cluster fit each other and the connector.

| file         | looks at                                                         |
|--------------|------------------------------------------------------------------|
| `model.py`   | nothing: it holds what the functions return                      |
| `local.py`   | this machine: Python, Java, Spark and the jar                    |
| `connect.py` | Spark Connect: its client here, and its server                   |
| `brokers.py` | a cluster: brokers, features, limits, topics and a user's rights |

Looks only. What an answer needs and is not there (an extra that is not installed, a right that the
user lacks) is said, never taken for well.
"""

from __future__ import annotations

from eoskafka.doctor.brokers import cluster
from eoskafka.doctor.connect import server
from eoskafka.doctor.local import machine
from eoskafka.doctor.model import Finding, Level

__all__ = ["Finding", "Level", "cluster", "machine", "server"]
