"""A client of Spark Connect: `python connect_client.py URL`.

It reads what to do as lines of JSON, and answers each with one. An answer has `error`, the text of
what pyspark has raised, and `classes`, the names of its classes.
"""

from __future__ import annotations

import io
import json
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import eoskafka
from eoskafka import Sink, Source
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

Spec = dict[str, Any]


def main() -> None:
    """Do what the lines say, in one session of `eoskafka.configure`."""
    builder = SparkSession.builder.remote(sys.argv[1])
    spark = eoskafka.configure(builder).getOrCreate()
    for line in sys.stdin:
        spec = json.loads(line)
        answer: Spec = {"error": "", "classes": []}
        try:
            answer |= TASKS[spec["what"]](spark, spec) or {}
        except (PySparkException, eoskafka.EosKafkaError) as failure:
            answer["error"] = str(failure)
            answer["classes"] = [each.__name__ for each in type(failure).__mro__]
            answer["condition"] = getattr(failure, "condition", "")
        print(json.dumps(answer), flush=True)


def rows_of(spark: SparkSession, spec: Spec) -> Any:
    """A stream of its source, with an exclamation mark behind each value."""
    rows = Source(**spec["source"]).stream(spark)
    return rows.selectExpr("key", "cast(concat(value, '!') as string) value")


def check(spark: SparkSession, _: Spec) -> None:
    """Whether the server has the connector; of a session that is there, `configure` asks too."""
    eoskafka.check(spark)
    eoskafka.configure(SparkSession.builder.remote(sys.argv[1]))


def add_jar(spark: SparkSession, spec: Spec) -> None:
    """Add the jar to the session alone, and ask again."""
    spark.addArtifact(spec["jar"])
    eoskafka.check(spark)


def copy(spark: SparkSession, spec: Spec) -> Spec:
    """Copy a topic until its present end, and say what was reported."""
    writer = Sink(**spec["sink"]).stream(rows_of(spark, spec), checkpoint=spec["checkpoint"])
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    sinks = [report.sink.metrics for report in query.recentProgress if report.numInputRows]
    return {"metrics": [dict(each) for each in sinks]}


def dead_letters(spark: SparkSession, spec: Spec) -> None:
    """Copy a topic with a guarded function; the values that end with 0 are dead letters."""

    @eoskafka.guard("binary")
    def add(value: bytearray) -> bytes:
        if value.endswith(b"0"):
            raise ValueError(value.decode())
        return bytes(value + b"!")

    rows = eoskafka.with_dead_letters(
        Source(**spec["source"]).stream(spark).withColumn("made", add("value")),
        error="made.error",
        value="made.value",
        topic=spec["sink"].pop("topic"),
        dead_letter_topic=spec["dead"],
    )
    writer = Sink(**spec["sink"]).stream(rows, checkpoint=spec["checkpoint"])
    writer.trigger(availableNow=True).start().awaitTermination()


def go_on(spark: SparkSession, spec: Spec) -> Spec:
    """Start to copy a topic without end, and say the name of the run."""
    writer = Sink(**spec["sink"]).stream(rows_of(spark, spec), checkpoint=spec["checkpoint"])
    return {"run": str(writer.trigger(processingTime="0 seconds").start().runId)}


def shown(spark: SparkSession, spec: Spec) -> Spec:
    """Copy a topic under the eyes of everything that shows a query's progress."""
    from eoskafka import metrics, plots
    from rich.console import Console

    text = io.StringIO()
    with (
        metrics.export(spark, port=0, address="127.0.0.1") as exporter,
        metrics.live(spark, Console(file=text, force_terminal=True, width=120)) as board,
    ):
        writer = Sink(**spec["sink"]).stream(rows_of(spark, spec), checkpoint=spec["checkpoint"])
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not any(q.totals["rows"] for q in board.queries()):
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    figure = plots.progress(query.recentProgress)
    return {
        "board": [dict(each.totals) for each in board.queries()],
        "prometheus": [line for line in lines if line.startswith("eoskafka_rows_total{")],
        "live": text.getvalue(),
        "plots": len(figure.axes),
    }


def batch(spark: SparkSession, spec: Spec) -> Spec:
    """Write numbers as a batch job, and read what is there."""
    rows = spark.range(spec["rows"]).selectExpr("cast(id as string) value")
    Sink(**spec["sink"]).save(rows)
    back = Source(**spec["back"]).batch(spark).selectExpr("cast(value as string) value").collect()
    return {"values": sorted(row.value for row in back)}


def real_time(spark: SparkSession, spec: Spec) -> Spec:
    """Start a query in real-time mode, and stop it when a batch is done."""
    eoskafka.configure(SparkSession.builder.remote(sys.argv[1]), real_time=True).getOrCreate()
    writer = Sink(**spec["sink"]).stream(
        rows_of(spark, spec), checkpoint=spec["checkpoint"], mode="update"
    )
    query = eoskafka.real_time_trigger(writer, "5 seconds").start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and query.isActive and not query.lastProgress:
        time.sleep(0.2)
    query.stop()
    if (failure := query.exception()) is not None:
        raise failure
    return {"batches": len(query.recentProgress)}


def foreach_batch(spark: SparkSession, spec: Spec) -> Spec:
    """Write each batch in a function, which runs in a process of the server's as another client.

    `how`: `frame`; `sql`, a statement INSERT INTO; `collected`, rows of a frame that the function
    has made of values; `checkpointed`, rows whose origin Spark has forgotten; `root`, a frame of
    values in the session that the query was started in; `twice`, two writes with names of their
    own; `thread`, on a thread of the function's; `late`, a view of the batch, which the client
    writes when the query has ended. With `end` the query is left running.
    """
    how, sink = spec["how"], Sink(**spec["sink"]).options()

    def save(rows: Any, **more: str) -> None:
        rows.write.format("eoskafka").mode("append").options(**sink, **more).save()

    def write(rows: Any, _: int) -> None:
        session = rows.sparkSession
        if how == "frame":
            save(rows)
        elif how == "twice":
            save(rows, writeId="first")
            save(rows, writeId="second")
        elif how == "thread":
            import threading

            thread = threading.Thread(target=save, args=(rows,))
            thread.start()
            thread.join()
        elif how == "collected":
            save(session.createDataFrame([(r.key, r.value) for r in rows.collect()], rows.schema))
        elif how == "checkpointed":
            save(rows.localCheckpoint())
        elif how == "root":
            values = [(r.key, r.value) for r in rows.collect()]
            save(spark.createDataFrame(values, rows.schema))
        elif how == "late":
            rows.createOrReplaceGlobalTempView("batch")
        else:
            listed = ", ".join(f"`{option}` '{value}'" for option, value in sink.items())
            rows.createOrReplaceTempView("batch")
            session.sql(
                f"CREATE OR REPLACE TEMPORARY VIEW sink USING eoskafka OPTIONS ({listed})"
            ).collect()
            session.sql("INSERT INTO sink SELECT key, value FROM batch").collect()

    writer = rows_of(spark, spec).writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", spec["checkpoint"])
    if spec.get("interval"):
        query = writer.trigger(processingTime=spec["interval"]).start()
        return {"run": str(query.runId)}
    patiently(lambda: writer.trigger(availableNow=True).start().awaitTermination())
    if how == "late":
        save(spark.table("global_temp.batch"))
    return {}


def patiently(run: Callable[[], object]) -> None:
    """Run a query, again if the function's process has not started within Spark's ten seconds."""
    for last in (False,) * 9 + (True,):
        try:
            run()
        except PySparkException as failure:
            if last or "failed to connect back" not in str(failure):
                raise
        else:
            return


def job(spark: SparkSession, spec: Spec) -> None:
    """A batch job in this session, or in one of its own, with rows of its own."""
    session = spark
    if spec.get("apart"):
        session = SparkSession.builder.remote(sys.argv[1]).create()
    rows = session.range(spec["rows"]).selectExpr("cast(id as string) value")
    rows.write.format("eoskafka").mode("append").options(**Sink(**spec["sink"]).options()).save()


def stop(spark: SparkSession, _: Spec) -> None:
    """Stop all queries of the session, when they have processed what is there."""
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()


TASKS: dict[str, Callable[[SparkSession, Spec], Spec | None]] = {
    "add-jar": add_jar,
    "batch": batch,
    "check": check,
    "dead-letters": dead_letters,
    "copy": copy,
    "foreach-batch": foreach_batch,
    "go-on": go_on,
    "job": job,
    "real-time": real_time,
    "shown": shown,
    "stop": stop,
}

if __name__ == "__main__":
    # The function is pickled by reference to this module otherwise, which the server has not.
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])  # type: ignore[no-untyped-call]
    main()
