# Databricks notebook source
# MAGIC %md
# MAGIC # See exactly-once at work
# MAGIC
# MAGIC This notebook shows a first pipeline, a crash in the middle of a pipeline, an aggregation, Delta
# MAGIC tables, and the commands for operators. After each query an independent reader checks the output: a
# MAGIC `read_committed` consumer that shares no code with the connector in Spark's JVM.
# MAGIC
# MAGIC To run the notebook on your own machine, you need `pip install 'eoskafka[local,verify,delta,bench]'`,
# MAGIC Jupyter, a JDK 17, and access to Maven Central, from which Spark downloads the Delta jars. If
# MAGIC `EOSKAFKA_SERVERS` is not set, the notebook starts its own Kafka broker.
# MAGIC
# MAGIC On Databricks, use compute that has the connector, and set `SERVERS` below to brokers that do not
# MAGIC require authentication. The notebook has not been tested on Databricks; see docs/databricks.md.

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
# MAGIC ## A Spark session
# MAGIC
# MAGIC `eoskafka.configure` adds the connector and Delta Lake to the builder of a Spark session. `local[2,4]`
# MAGIC means two cores and up to four attempts for each task, as on a cluster.

# COMMAND ----------

brokers = None
if not SERVERS:
    from eoskafka.cluster import LocalCluster

    brokers = LocalCluster(data_dir=WORK / "brokers")
    brokers.start()
    # This also runs if a cell fails.
    atexit.register(brokers.purge)
    SERVERS = brokers.bootstrap_servers

if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
    # Python workers are processes of their own, and need the packages of this one.
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
# MAGIC The next cell writes some payments to a topic with four partitions. Each payment has a key.

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
    """Run a command of eoskafka and print its output; fail if the command reports a problem."""
    command = [sys.executable, "-m", "eoskafka", *arguments, "--bootstrap-servers", SERVERS]
    plain = {**os.environ, "FORCE_COLOR": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    print(done.stdout + done.stderr)
    assert done.returncode == 0


# COMMAND ----------

# MAGIC %md
# MAGIC ## The first pipeline
# MAGIC
# MAGIC `format("eoskafka")` accepts the options of Spark's built-in `format("kafka")`. `Source` and `Sink`
# MAGIC provide the same options with types, and check them before Spark starts.

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
# MAGIC Does the output contain each payment exactly once? An account has many payments, so a key does not
# MAGIC identify a payment, but the number in its value does. A batch query writes the expected output as a table,
# MAGIC and `eoskafka verify` compares the topic with it.

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
# MAGIC In the first attempt of one task, the function below kills its Python process after it has returned
# MAGIC thousands of rows. At that point, some rows have already reached the brokers. Spark then retries the
# MAGIC task. An at-least-once sink would write these rows twice.

# COMMAND ----------


def crashing_once(batches):
    task = TaskContext.get()
    for number, batch in enumerate(batches):
        yield pd.DataFrame({"key": batch["key"], "value": batch["value"]})
        if number == 2 and task.attemptNumber() == 0 and task.partitionId() == 0:
            # Give the producer time to send the rows that were returned.
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
# MAGIC The number above is the number of aborted transactions. Their records stay in the topic until retention
# MAGIC deletes them, but a `read_committed` consumer never returns them. A `read_uncommitted` consumer does,
# MAGIC and `read_uncommitted` is Kafka's default. Therefore, **consumers of the output must set
# MAGIC `isolation.level=read_committed`**.

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
# MAGIC An aggregation needs a shuffle, so the tasks that read are not the tasks that write. The connector
# MAGIC detects this in the plan and runs the query in epoch scope: one decision commits the output of all tasks
# MAGIC of a batch together with its source offsets. You do not have to configure anything. The first query ran
# MAGIC in task scope, where each task commits its output and its offsets in its own transaction.

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
# MAGIC From Kafka to Delta, the Delta transaction log makes the result exactly-once. The source also commits
# MAGIC its offsets to its consumer group, so that tools can show the query's lag. From Delta to Kafka, the
# MAGIC connector makes the result exactly-once.

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
# MAGIC These commands show the progress of each query and the open transactions. If `kafka.group.id` is not
# MAGIC set, the connector derives the group name from the checkpoint path.

# COMMAND ----------

eos("offsets", "lag")
eos("txn", "list")

# COMMAND ----------

# MAGIC %md
# MAGIC This is the end of the walk-through. `eoskafka --help` lists the commands, and docs/options.md describes
# MAGIC the options.

# COMMAND ----------

if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
    spark.stop()
admin.close()
if brokers is not None:
    brokers.purge()
