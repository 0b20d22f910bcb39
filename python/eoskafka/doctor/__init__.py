"""Whether this machine, its Spark and a cluster fit each other and the connector.

| file         | looks at                                                         |
|--------------|------------------------------------------------------------------|
| `model.py`   | nothing: it holds what the functions return                      |
| `local.py`   | this machine: Python, Java, Spark and the jar                    |
| `connect.py` | Spark Connect: its client here, and its server                   |
| `brokers.py` | a cluster: brokers, features, limits, topics and a user's rights |

Nothing is changed. If something needed for a check is missing (an extra that is not installed, or a
right of the user), the result says so; it never counts as good.
"""

from __future__ import annotations

from eoskafka.doctor.brokers import cluster
from eoskafka.doctor.connect import server
from eoskafka.doctor.local import machine
from eoskafka.doctor.model import Finding, Level

__all__ = ["Finding", "Level", "cluster", "machine", "server"]
