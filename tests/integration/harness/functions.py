"""Functions of `foreachBatch`, by name: a function cannot be sent to the job.

Each is made from the sink's options, and is new in each run. The first writes are the function of a
first deployment, the later ones what somebody may have made of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from harness.transforms import TABLE
from harness.waiting import until

Sink = dict[str, str]
Function = Callable[[DataFrame, int], None]

# The option of a sink that says where the second write of `two_writes` goes.
OTHER = "other"


def save(batch: DataFrame, sink: Sink, **more: str) -> None:
    """A batch write of ours."""
    options = {key: value for key, value in {**sink, **more}.items() if key != OTHER}
    batch.write.format("eoskafka").mode("append").options(**options).save()


def foreach_batch(sink: Sink) -> Function:
    """Writes each batch."""
    return lambda batch, _: save(batch, sink)


def foreach_batch_again(sink: Sink) -> Function:
    """Writes each batch, again if the first write fails."""

    def write(batch: DataFrame, _: int) -> None:
        try:
            save(batch, sink)
        except Py4JJavaError:
            save(batch, sink)

    return write


def catches_once(sink: Sink) -> Function:
    """Writes each batch; the first error is caught, so that Spark logs the batch."""
    caught: list[Exception] = []

    def write(batch: DataFrame, _: int) -> None:
        try:
            save(batch, sink)
        except Py4JJavaError as error:
            if caught:
                raise
            caught.append(error)

    return write


def writes_nothing(_: Sink) -> Function:
    """Leaves the write out, as after a redeployment or with a flag."""
    return lambda batch, _: None


def renamed(sink: Sink) -> Function:
    """Writes each batch under another name than `foreach_batch`."""
    return lambda batch, _: save(batch, sink, writeId="renamed")


def two_writes(sink: Sink) -> Function:
    """Two writes of each batch."""

    def write(batch: DataFrame, _: int) -> None:
        save(batch, sink, writeId="left")
        save(batch, sink, writeId="right", topic=sink[OTHER])

    return write


def two_writes_one_caught(sink: Sink) -> Function:
    """As `two_writes`; the first error of the left one is caught."""
    caught: list[Exception] = []

    def write(batch: DataFrame, _: int) -> None:
        try:
            save(batch, sink, writeId="left")
        except Py4JJavaError as error:
            if caught:
                raise
            caught.append(error)
        save(batch, sink, writeId="right", topic=sink[OTHER])

    return write


def and_to_delta(sink: Sink) -> Function:
    """Writes each batch to a Delta table, too, which ignores a batch that it has already."""

    def write(batch: DataFrame, number: int) -> None:
        table = batch.sparkSession.conf.get(TABLE)
        once = {"txnAppId": "payments", "txnVersion": str(number)}
        batch.write.format("delta").mode("append").options(**once).save(table)
        save(batch, sink)

    return write


def and_to_iceberg(sink: Sink) -> Function:
    """Writes each batch to an Iceberg table, too, unless a snapshot says that it is there."""

    def write(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        table = str(spark.conf.get(TABLE))
        mark = f"payments/{number}"
        spark.catalog.refreshTable(table)
        snapshots = spark.table(f"{table}.snapshots")
        if snapshots.where(f"summary['payments-batch'] = '{mark}'").isEmpty():
            batch.writeTo(table).option("snapshot-property.payments-batch", mark).append()
        save(batch, sink)

    return write


WRITES = 20
WRITERS = 200


def twenty_writes(sink: Sink) -> Function:
    """As many writes of each batch as a checkpoint may know, each with very many tasks."""

    def write(batch: DataFrame, _: int) -> None:
        for number in range(WRITES):
            save(batch.repartition(WRITERS), sink, writeId=f"w{number}")

    return write


def only_right(sink: Sink) -> Function:
    """The right one of `two_writes` alone."""
    return lambda batch, _: save(batch, sink, writeId="right", topic=sink[OTHER])


def falls_back(sink: Sink) -> Function:
    """Writes each batch, under another name if that fails."""

    def write(batch: DataFrame, _: int) -> None:
        try:
            save(batch, sink)
        except Py4JJavaError:
            save(batch, sink, writeId="fallback")

    return write


def leaves_its_write(sink: Sink) -> Function:
    """Writes each batch on another thread, and fails when that write is decided."""

    def write(batch: DataFrame, _: int) -> None:
        jvm: Any = batch.sparkSession._jvm
        folder = Path(jvm.System.getProperty("io.eoskafka.faults"))
        threading.Thread(target=save, args=(batch, sink)).start()
        until(lambda: any(folder.glob("after-decision.taken-by-*")), "the write's decision", 60)
        raise RuntimeError("the function has failed")

    return write


def _on_pool(sink: Sink, pool: str) -> Function:
    def write(batch: DataFrame, _: int) -> None:
        jvm: Any = batch.sparkSession._jvm
        jvm.testing.PoolWrites.write(batch._jdf, sink, pool)

    return write


def on_a_fixed_pool(sink: Sink) -> Function:
    """Writes each batch on a Java pool whose thread the first batch has created."""
    return _on_pool(sink, "fixed")


def on_scalas_pool(sink: Sink) -> Function:
    """Writes each batch on Scala's global execution context."""
    return _on_pool(sink, "global")


FUNCTIONS: dict[str, Callable[[Sink], Function]] = {
    function.__name__: function
    for function in (
        foreach_batch,
        foreach_batch_again,
        catches_once,
        writes_nothing,
        renamed,
        two_writes,
        two_writes_one_caught,
        and_to_delta,
        and_to_iceberg,
        twenty_writes,
        only_right,
        falls_back,
        leaves_its_write,
        on_a_fixed_pool,
        on_scalas_pool,
    )
}
