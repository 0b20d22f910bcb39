"""The program of an `Application`: a Spark session that runs queries as it is told.

`python job.py SPEC` reads the session's settings from SPEC (JSON), then one command per line from
its standard input, and answers each with a line on its standard output. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import eoskafka
from eoskafka.session import PLUGIN_CLASS, REAL_TIME_CHECK
from eoskafka.sparks import ASYNC_PROGRESS
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from harness.functions import FUNCTIONS
from harness.transforms import TRANSFORMS
from harness.versions import HAS_REAL_TIME

# As a master: workers with so many names of this machine. Spark starts no speculative attempt on
# the host of another attempt, and in local-cluster mode all executors are on one host.
HOSTS = {
    "two-hosts": ("127.0.0.1", "localhost"),
    "five-hosts": ("127.0.0.1", "localhost", "127.0.0.2", "127.0.0.3", "127.0.0.4"),
}


def main() -> None:
    """Obey until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Whatever else prints, the JVM included, does so to the log.
    os.dup2(2, 1)
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    spark = _session(spec)
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    log4j.core.config.Configurator.setLevel("io.eoskafka", log4j.Level.INFO)
    queries: dict[str, StreamingQuery] = {}

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"ready": True})
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "write":
            _write(spark, command)
            answer({"written": command["rows"]})
            continue
        if command["do"] == "read":
            answer({"values": _read(spark, command)})
            continue
        if command["do"] == "sql":
            answer({"rows": [[*map(str, row)] for row in spark.sql(command["text"]).collect()]})
            continue
        if command["do"] == "explain":
            answer({"plans": _plans(spark, command)})
            continue
        name = command["name"]
        if command["do"] == "report":
            answer(_report(queries[name]))
            continue
        if command["do"] == "start":
            queries[name] = _start(spark, command)
        elif command["do"] == "stop":
            queries[name].stop()
        answer(_status(queries[name]))
    # No spark.stop(): it waits for executors, which a test may have stopped for good.


def _session(spec: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder
    for key, value in spec["settings"].items():
        builder = builder.config(key, value)
    jar = os.environ.get("EOSKAFKA_JAR")
    if jar:
        jars = ",".join(filter(None, (spec["settings"].get("spark.jars"), jar)))
        builder = builder.config("spark.jars", jars).config("spark.plugins", PLUGIN_CLASS)
        builder = builder.config(REAL_TIME_CHECK, "false").config(ASYNC_PROGRESS, "false")
    else:
        builder = eoskafka.configure(builder, real_time=HAS_REAL_TIME)
    if "spark.plugins" in spec["settings"]:
        # Those alone, for a test of a session that was not configured by us.
        builder = builder.config("spark.plugins", spec["settings"]["spark.plugins"])
    master = spec["master"]
    if master in HOSTS:
        master = _start_workers(builder, HOSTS[master], spec["work"])
    return builder.master(master).getOrCreate()


def _start_workers(builder: SparkSession.Builder, hosts: Sequence[str], work: str) -> str:
    """A master and workers in the driver's JVM, as local-cluster mode has them; its URL."""
    conf = SparkConf(loadDefaults=False)
    for key, value in builder._options.items():
        conf.set(key, value)
    SparkContext._ensure_initialized(conf=conf)
    gateway: Any = SparkContext._gateway
    jvm: Any = SparkContext._jvm
    deploy = jvm.org.apache.spark.deploy
    none = jvm.scala.Option.empty()
    settings = jvm.org.apache.spark.SparkConf()
    url = (
        deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, settings)
        ._1()
        .address()
        .toSparkURL()
    )
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = url
    for host in hosts:
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, 1024, urls, f"{work}/{host}", none, settings, none
        )
    return str(url)


def _start(spark: SparkSession, command: dict[str, Any]) -> StreamingQuery:
    for name, value in command.get("conf", {}).items():
        spark.conf.set(name, value)
    rows = spark.readStream.format(command["origin"]).options(**command["source"]).load()
    stream = TRANSFORMS[command["transform"]](rows).writeStream
    if command["format"] in FUNCTIONS:
        writer = stream.foreachBatch(FUNCTIONS[command["format"]](command["sink"]))
    else:
        writer = stream.format(command["format"]).options(**command["sink"])
    writer = writer.outputMode(command["mode"]).option("checkpointLocation", command["checkpoint"])
    interval = command["interval"]
    if command.get("real_time"):
        return eoskafka.real_time_trigger(writer, command["real_time"]).start()
    if interval == "once":
        return writer.trigger(once=True).start()
    if interval is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=interval).start()


def _write(spark: SparkSession, command: dict[str, Any]) -> None:
    numbers = spark.range(command["start"], command["start"] + command["rows"], 1, 4)
    rows = numbers.selectExpr("concat('k', id) key", "cast(id as string) value")
    rows.write.format(command["format"]).mode("append").options(**command["options"]).save()


def _read(spark: SparkSession, command: dict[str, Any]) -> list[str]:
    rows = spark.read.format("eoskafka").options(**command["source"]).load()
    return [row.value for row in rows.selectExpr("cast(value as string) value").collect()]


def _plans(spark: SparkSession, command: dict[str, Any]) -> list[str]:
    """Every form in which Spark prints a plan over a source: of a stream, and of a batch."""
    utils: Any = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # type: ignore[union-attr]
    found = []
    for reader in (spark.readStream, spark.read):
        rows: Any = reader.format("eoskafka").options(**command["source"]).load()
        execution = rows._jdf.queryExecution()
        found += [execution.toString(), execution.logical().toJSON()]
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            found.append(utils.explainString(execution, mode))
    return found


def _report(query: Any) -> dict[str, Any]:
    """What a query shows of itself: its plan, its progress, and its error with all its causes."""
    error = query._jsq.exception()
    jvm: Any = SparkContext._jvm
    utils = jvm.org.apache.commons.lang3.exception.ExceptionUtils
    return {
        "plan": query._jsq.explainInternal(True),
        "progress": [progress.json() for progress in query._jsq.recentProgress()],
        "error": utils.getStackTrace(error.get()) if error.isDefined() else "",
        "python": f"{query.exception()!r} {query.exception()}",
    }


def _status(query: StreamingQuery) -> dict[str, Any]:
    # Before its error: a query that is not active any more has one by then, if it has failed.
    is_active = query.isActive
    error = query.exception()
    last = query.lastProgress
    return {
        "active": is_active,
        "error": None if error is None else f"{error}",
        "batches": 0 if last is None else last["batchId"] + 1,
    }


if __name__ == "__main__":
    main()
