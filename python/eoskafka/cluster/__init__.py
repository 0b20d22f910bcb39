"""A local Kafka cluster of one or three KRaft brokers, for demos, tests and benchmarks.

>>> with LocalCluster(brokers=1) as cluster:  # doctest: +SKIP
...     print(cluster.bootstrap_servers)

| file            | holds                                                               |
|-----------------|---------------------------------------------------------------------|
| `local.py`      | `LocalCluster`: start, stop, purge, and the state file others find   |
| `broker.py`     | `Broker`: one broker's process, its signals, and when it is ready    |
| `settings.py`   | the broker settings for a small machine                             |
| `process.py`    | is this pid still the process that we started?                      |
| `jars.py`       | Kafka's jars: downloaded once, checked with `kafka-<version>.lock`   |
| `repository.py` | downloads from a Maven repository, with Python alone                |
"""

from __future__ import annotations

from eoskafka.cluster.broker import Broker
from eoskafka.cluster.local import LocalCluster

__all__ = ["Broker", "LocalCluster"]
