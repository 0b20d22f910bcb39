# Databricks notebook source
# MAGIC %md
# MAGIC # Exactly once, seen
# MAGIC
# MAGIC A first pipeline, a crash in the middle of it, state, Delta tables, and what operators look at.
# MAGIC After each step an independent reader counts what came out: a `read_committed` consumer that
# MAGIC shares no code with the connector in Spark's JVM.
# MAGIC
# MAGIC On a machine of yours: `pip install 'eoskafka[local,verify,delta,bench]'`, a JDK 17, and nothing
# MAGIC else: without `EOSKAFKA_SERVERS` the notebook starts a Kafka broker of its own.
# MAGIC
# MAGIC On Databricks: set `SERVERS` below to brokers without a log-in, on compute that has the connector
# MAGIC (see docs/databricks.md; not tried there by us).

# COMMAND ----------

import atexit
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from matplotlib import pyplot as plt
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import eoskafka
from eoskafka import Sink, Source, plots
from eoskafka.audit import read_committed

SERVERS = os.environ.get("EOSKAFKA_SERVERS", "")
WORK = Path(tempfile.mkdtemp(prefix="eoskafka-walkthrough-"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## A session
# MAGIC
# MAGIC `eoskafka.configure` adds the connector to a session that is about to be built, and Delta Lake
# MAGIC with it. `local[2,4]`: two cores, and four attempts for a task that fails, as on a cluster.

# COMMAND ----------

brokers = None
if not SERVERS:
    from eoskafka.cluster import LocalCluster

    brokers = LocalCluster(data_dir=WORK / "brokers")
    brokers.start()
    # Where a cell fails, too.
    atexit.register(brokers.purge)
    SERVERS = brokers.bootstrap_servers

if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
    # Python workers are other processes: they need this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2,4]")
        .appName("walkthrough")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
    )
    spark = eoskafka.configure(builder, delta=True).getOrCreate()
    # The crash below is on purpose.
    spark.sparkContext.setLogLevel("OFF")

# COMMAND ----------

# MAGIC %md
# MAGIC Some payments to work with: a key each, in four partitions.

# COMMAND ----------

COUNT = 40_000
RUN = f"walkthrough-{int(time.time())}"
PAYMENTS, CLEAN, CRASHED, TOTALS, FROM_DELTA = TOPICS = [
    f"{RUN}-{name}" for name in ("payments", "clean", "crashed", "totals", "from-delta")
]

admin = KafkaAdminClient(bootstrap_servers=SERVERS)
admin.create_topics([NewTopic(topic, 4, 1) for topic in TOPICS])
admin.wait_for_topics(TOPICS)
producer = KafkaProducer(bootstrap_servers=SERVERS, linger_ms=20)
for n in range(COUNT):
    producer.send(PAYMENTS, key=b"account-%d" % (n % 100), value=b"payment %d" % n, partition=n % 4)
producer.close()


def eos(*arguments):
    """Run a command of eoskafka and show what it says; one that finds something wrong ends here."""
    command = [sys.executable, "-m", "eoskafka", *arguments, "--bootstrap-servers", SERVERS]
    plain = {**os.environ, "FORCE_COLOR": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    print(done.stdout + done.stderr)
    assert done.returncode == 0


# COMMAND ----------

# MAGIC %md
# MAGIC ## The first pipeline
# MAGIC
# MAGIC `format("eoskafka")` takes the options of Spark's own `format("kafka")`. `Source` and `Sink` are
# MAGIC the same options with types, checked before Spark starts.

# COMMAND ----------

payments = Source(
    bootstrap_servers=SERVERS,
    subscribe=PAYMENTS,
    starting_offsets="earliest",
    max_offsets_per_trigger=8_000,
)
clean = Sink(bootstrap_servers=SERVERS, topic=CLEAN)

rows = payments.stream(spark).select("key", F.upper(F.col("value").cast("string")).alias("value"))
first = (
    clean.stream(rows, checkpoint=str(WORK / "first"))
    .queryName("first")
    .trigger(availableNow=True)
    .start()
)
first.awaitTermination()
plots.progress(first.recentProgress)

# COMMAND ----------

# MAGIC %md
# MAGIC Is each payment there once? The values have changed, the order within a key must not have. An
# MAGIC account has many payments, so the number of the payment tells them apart: what should have come
# MAGIC out is written as a table by a batch query, and compared.

# COMMAND ----------

given = Source(bootstrap_servers=SERVERS, subscribe=PAYMENTS).batch(spark)
given.select("key", F.upper(F.col("value").cast("string")).alias("value")).write.parquet(
    str(WORK / "expected")
)
eos(
    *("verify", "--output", CLEAN, "--by", "digest"),
    *("--expected", str(WORK / "expected")),
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A crash in the middle
# MAGIC
# MAGIC The function below ends its Python process after it has handed back thousands of rows, which are
# MAGIC at the brokers by then. Spark runs the task again. With an at-least-once sink those rows are there
# MAGIC twice.

# COMMAND ----------


def crashing_once(batches):
    task = TaskContext.get()
    for number, batch in enumerate(batches):
        yield pd.DataFrame({"key": batch["key"], "value": batch["value"]})
        if number == 2 and task.attemptNumber() == 0 and task.partitionId() == 0:
            # Time for what was handed back to be sent.
            time.sleep(1)
            os._exit(9)


spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
rows = payments.stream(spark).select("key", "value")
crashed = (
    Sink(bootstrap_servers=SERVERS, topic=CRASHED)
    .stream(
        rows.mapInPandas(crashing_once, "key binary, value binary"),
        checkpoint=str(WORK / "crashed"),
    )
    .queryName("crashed")
    .trigger(availableNow=True)
    .start()
)
crashed.awaitTermination()
sum(int(p.sink.metrics.get("transactionsAborted", 0)) for p in crashed.recentProgress)

# COMMAND ----------

# MAGIC %md
# MAGIC So many transactions were aborted. Their records are in the topic for ever, and a
# MAGIC `read_committed` consumer never sees them. Who reads without it sees them: **consumers of the
# MAGIC output must set `isolation.level=read_committed`**.

# COMMAND ----------

eos(
    *("verify", "--output", CRASHED, "--by", "value"),
    *("--checkpoint", str(WORK / "crashed")),
)

# COMMAND ----------

uncommitted = (
    spark.read.format("eoskafka")
    .option("kafka.bootstrap.servers", SERVERS)
    .option("subscribe", CRASHED)
    .option("kafka.isolation.level", "read_uncommitted")
    .load()
    .count()
)
committed = sum(1 for _ in read_committed(SERVERS, CRASHED))
assert committed == COUNT < uncommitted
figure, axes = plt.subplots(figsize=(7, 1.6))
axes.barh(["read_uncommitted", "read_committed"], [uncommitted, committed], color="#1f5fa8")
axes.axvline(COUNT, color="#b04040", linestyle="--")
axes.set_title(f"records of the output; dashed: the {COUNT:,} of the input", fontsize=10)
figure.tight_layout()

# COMMAND ----------

# MAGIC %md
# MAGIC ## State
# MAGIC
# MAGIC An aggregation shuffles: reading and writing happen in different tasks. The connector sees it in
# MAGIC the plan and works in epoch scope, one decision for all writers of a batch and its offsets.
# MAGIC Nothing has to be set.

# COMMAND ----------

counts = payments.stream(spark).groupBy("key").count()
totals = (
    Sink(bootstrap_servers=SERVERS, topic=TOTALS)
    .stream(
        counts.select("key", F.col("count").cast("string").alias("value")),
        checkpoint=str(WORK / "totals"),
        mode="update",
    )
    .queryName("totals")
    .trigger(availableNow=True)
    .start()
)
totals.awaitTermination()
scopes = {report.sink.metrics["transactionScope"] for report in totals.recentProgress}
last = {record.key: int(record.value) for record in read_committed(SERVERS, TOTALS)}
assert sum(last.values()) == COUNT
scopes, sum(last.values())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Delta
# MAGIC
# MAGIC Kafka to Delta is exactly once by Delta's own log; the source commits its offsets to the group as
# MAGIC well, so lag tools see the job. Delta to Kafka is exactly once by the connector.

# COMMAND ----------

table = str(WORK / "table")
into = (
    payments.stream(spark)
    .select("key", "value")
    .writeStream.format("delta")
    .queryName("into-delta")
    .option("checkpointLocation", str(WORK / "into-delta"))
    .trigger(availableNow=True)
    .start(table)
)
into.awaitTermination()
out = (
    Sink(bootstrap_servers=SERVERS, topic=FROM_DELTA)
    .stream(spark.readStream.format("delta").load(table), checkpoint=str(WORK / "from-delta"))
    .queryName("from-delta")
    .trigger(availableNow=True)
    .start()
)
out.awaitTermination()
eos("verify", "--output", FROM_DELTA, "--by", "digest", "--expected", table)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Operations
# MAGIC
# MAGIC Where the query stands, which transactions there are, and whether anything is in its way. The
# MAGIC group's name is made from the checkpoint's path where `kafka.group.id` does not give one.

# COMMAND ----------

eos("offsets", "lag")
eos("txn", "list")

# COMMAND ----------

# MAGIC %md
# MAGIC That is all. `eoskafka --help` lists the commands, README.md the options.

# COMMAND ----------

if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
    spark.stop()
admin.close()
if brokers is not None:
    brokers.purge()
