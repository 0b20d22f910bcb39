"""What the integration tests share: a job in processes of its own, faults in it, and the verdict.

| file             | holds                                                                    |
|------------------|--------------------------------------------------------------------------|
| `application.py` | `Application`: a Spark application, its processes, its streaming queries  |
| `job.py`         | the program that an application runs; it does what it is told on stdin    |
| `transforms.py`  | what a query does between source and sink, by name                        |
| `functions.py`   | functions of `foreachBatch`, by name                                      |
| `archive.py`     | the classes of Spark and of brokers, mapped by JVMs that start then sooner |
| `logs.py`        | Spark's logs in a checkpoint, of which the last batch can be forgotten    |
| `faults.py`      | `Faults`: arms the connector's fault points                               |
| `flow.py`        | `Flow`: input topic, output topic and group of one test, and the verdict  |
| `javac.py`       | compiles `java/`, what a transform cannot do in Python, and `plugins/`    |
| `standalone.py`  | `Standalone`: a master with workers, and jobs submitted to it             |
| `memory.py`      | `MemoryLimit`, and `greedy.py`, a query that exceeds it                    |
| `yarn.py`        | `Yarn`: a resource and a node manager, and jobs submitted to them         |
| `connect.py`     | a server of Spark Connect, and `connect_client.py`, a program that uses it |
| `pipelines.py`   | the sample project in notebooks/pipeline, and its updates                 |
| `delta.py`       | Delta's jars                                                              |
| `iceberg.py`     | Iceberg's jar, and the settings of a catalog in a folder                  |
| `registry.py`    | `RegistryServer`: a schema registry in memory                             |
| `raw_requests.py` | `RawConnection`: requests to a broker that no client sends             |
| `pages.py`       | the Python programs of a page of documentation                            |
| `otlp.py`        | `OtlpReceiver`: takes what is sent to a collector of OpenTelemetry        |
| `schemas.py`     | Spark's Avro jar, and values in the wire format                           |
| `strangers.py`   | consumers of other applications, in `clients/`                           |
| `log_ins.py`     | `LogIns`: a broker with a listener for each kind of log-in                |
| `rights.py`      | `GuardedCluster`: a broker whose users have only what conf/ grants them   |
| `certificates.py` | an authority that issues certificates, in each format                   |
| `token_service.py` | issues tokens for OAUTHBEARER                                           |
| `kdc.py`         | `Kdc`: a Kerberos server                                                  |
| `maven.py`       | jars that only tests need                                                 |
| `old_kafka.py`   | a broker from before KIP-447                                              |
| `tally.py`       | counts kills and records for reports                                      |
| `waiting.py`     | `until`, `until_ended`, `again_and_again`: waits, and what goes on meanwhile |
"""

from __future__ import annotations

from harness.application import IMPATIENT_DRIVER, Application, Query, StartApplication
from harness.faults import Action, Faults, Point
from harness.flow import Flow, hidden
from harness.javac import compile_to_jar
from harness.logs import forget, forget_last_batch, last_batches
from harness.waiting import until, until_ended

__all__ = [
    "IMPATIENT_DRIVER",
    "Action",
    "Application",
    "Faults",
    "Flow",
    "Point",
    "Query",
    "StartApplication",
    "compile_to_jar",
    "forget",
    "forget_last_batch",
    "hidden",
    "last_batches",
    "until",
    "until_ended",
]
