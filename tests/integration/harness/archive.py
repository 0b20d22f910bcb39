"""Archives of the classes that Spark and brokers load, with which their JVMs start sooner.

Class data sharing of the JDK: a JVM that was told so writes what it has loaded when it ends, and
later ones map it. An archive is of one JDK and one class path; a JVM ignores one that does not fit.
Tests start hundreds of JVMs, and these spend most of their time on loading classes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from eoskafka.cluster.jars import java, kafka_jars

_FOLDER = Path(__file__).resolve().parents[3] / "build" / "class-archives"
_TIMEOUT_S = 300

# What most tests do: a stream with a function, an aggregation with state, and a batch.
_JOB = """
import sys
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.driver.extraJavaOptions", sys.argv[1])
    .getOrCreate()
)
rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
counts = rows.groupBy((rows.value % 3).alias("k")).count()
for stream, mode in ((rows.where("value > 1"), "append"), (counts, "update")):
    stream.writeStream.format("noop").outputMode(mode).trigger(availableNow=True).start()
for query in spark.streams.active:
    query.awaitTermination()
spark.range(100).selectExpr("sum(id)").collect()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


# A broker that coordinates a transaction, and ends.
_BROKER = """
from contextlib import closing
from eoskafka.cluster import LocalCluster
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
with LocalCluster() as cluster:
    servers = cluster.bootstrap_servers
    with closing(KafkaProducer(bootstrap_servers=servers, transactional_id="id")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("topic", b"value").get(60)
        offsets = {TopicPartition("topic", 0): OffsetAndMetadata(0, "", -1)}
        producer.send_offsets_to_transaction(offsets, "group")
        producer.commit_transaction()
"""


@cache
def spark_folder(python: str) -> Path:
    """Where the pyspark of this interpreter is."""
    where = (
        "import importlib.util as u; print(u.find_spec('pyspark').submodule_search_locations[0])"
    )
    said = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True)
    return Path(said.stdout.strip())


@cache
def archive_options(python: str = sys.executable) -> str:
    """Options for a JVM of this interpreter's Spark; empty if there cannot be an archive."""
    cores = sorted(spark_folder(python).glob("jars/spark-core_*.jar"))

    def make(archive: Path) -> None:
        _run(python, _JOB, f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive}")

    return _option("spark", str(cores[0]), make) if cores else ""


@cache
def broker_archive_options() -> str:
    """Options for a JVM of the local cluster's brokers; empty if there cannot be an archive."""

    def make(archive: Path) -> None:
        _run(sys.executable, _BROKER, JDK_JAVA_OPTIONS=f"-XX:ArchiveClassesAtExit={archive}")

    return _option("broker", str(kafka_jars()[0]), make)


def _option(name: str, of: str, make: Callable[[Path], None]) -> str:
    """The option that uses an archive, which is made if it is not there yet."""
    found = shutil.which(java())
    if found is None:
        return ""
    digest = hashlib.sha256(f"{of} {os.path.realpath(found)}".encode()).hexdigest()[:12]
    archive = _FOLDER / f"{name}-{digest}.jsa"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / f"{archive.stem}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            part = archive.with_suffix(".part")
            part.unlink(missing_ok=True)
            make(part)
            if not part.exists():
                return ""
            part.rename(archive)
    return f"-XX:SharedArchiveFile={archive}"


def _run(python: str, program: str, *arguments: str, **environment: str) -> None:
    """Run a program whose JVM leaves an archive; without one, JVMs start as they would anyway."""
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [python, "-c", program, *arguments],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
            check=False,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
