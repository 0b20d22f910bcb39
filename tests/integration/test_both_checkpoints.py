"""What a stream's source logs, and checkpoints that go to the built-in connector and back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.errors import OffsetsError
from harness import until
from harness.versions import needs_built_in, reports
from pyspark.sql import DataFrame
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming import DataStreamWriter
from streams import QUERY_S, Streams, kv

SLOW = pytest.mark.slow


def counts(rows: DataFrame) -> DataFrame:
    """How many records there are, in each version of the answer."""
    return rows.groupBy(lit("all").alias("key")).agg(count("*").cast("string").alias("value"))


def logged(checkpoint: Path) -> list[dict[str, dict[str, int]]]:
    """The offsets of each batch in a checkpoint of one source, in their order."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    return [json.loads(file.read_text().splitlines()[2]) for file in files]


def test_no_batch_without_offsets_is_logged(either: Streams) -> None:
    topic, output, checkpoint = either.topic(), either.topic(), either.checkpoint()
    either.copy(topic, output, checkpoint)
    either.send(topic, 0, 1)
    either.copy(topic, output, checkpoint)
    offsets = logged(checkpoint)
    assert offsets[-1] == {topic: {"0": 1, "1": 1}}
    assert all(batch[topic] for batch in offsets)


def test_nor_one_without_topics(either: Streams) -> None:
    stem, output, checkpoint = either.group(), either.topic(), either.checkpoint()

    def run(finds: bool = True) -> None:
        options: dict[str, Any] = {"subscribePattern": stem, "failOnDataLoss": "false"}
        writer = either.sink(kv(either.source(options=options)), output, checkpoint)
        if finds or either.form == "kafka":
            either.run(writer)
        else:
            # One of the differences.
            assert "[EOSKAFKA_NO_SUCH_TOPIC]" in either.failure(writer)

    run(finds=False)
    assert logged(checkpoint) == []
    either.create(f"{stem}-1", 1)
    either.send(f"{stem}-1", 0, 1)
    run()
    either.delete(f"{stem}-1")
    run(finds=False)
    assert logged(checkpoint) == [{f"{stem}-1": {"0": 2}}]
    either.create(f"{stem}-2", 1)
    either.send(f"{stem}-2", 2)
    run()
    assert logged(checkpoint) == [{f"{stem}-1": {"0": 2}}, {f"{stem}-2": {"0": 1}}]
    assert either.numbers(output) == [0, 1, 2]


def test_a_start_without_a_batch_counts_in_the_next_run(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()
    query = either.copy(topic, output, checkpoint, {"startingOffsets": "latest"})
    assert [p.numInputRows for p in reports(query)] in ([], [0])
    either.send(topic, 10, 11)
    # The option counts once, and it has counted.
    either.copy(topic, output, checkpoint, {"startingOffsets": "earliest"})
    assert either.numbers(output) == [10, 11]


def test_initial_offsets_of_a_version_to_come_are_refused(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=2), either.topic(), either.checkpoint()
    either.copy(topic, output, checkpoint)
    initial = checkpoint / "sources" / "0" / "0"
    initial.write_bytes(initial.read_bytes().replace(b"v1\n", b"v99999\n"))
    (initial.parent / ".0.crc").unlink(missing_ok=True)
    for log in ("offsets", "commits"):
        for file in (checkpoint / log).iterdir():
            file.unlink()
    error = either.failure(either.sink(kv(either.source(topic)), output, checkpoint))
    wanted = "v99999" if either.form == "kafka" else "EOSKAFKA_CHECKPOINT_UNREADABLE"
    assert wanted in error


@needs_built_in
@pytest.mark.parametrize(
    "plan", [kv, pytest.param(lambda rows: kv(rows).repartition(2), marks=SLOW), counts]
)
def test_a_checkpoint_is_the_others_too(
    streams: Streams, plan: Callable[[DataFrame], DataFrame]
) -> None:
    topic, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    for number, form in enumerate(("kafka", "eoskafka", "kafka", "kafka", "eoskafka", "eoskafka")):
        streams.form = form
        streams.send(topic, 2 * number, 2 * number + 1)
        mode = "update" if plan is counts else "append"
        streams.run(streams.sink(plan(streams.source(topic)), output, checkpoint, mode=mode))
        if plan is counts:
            assert max(streams.numbers(output)) == 2 * number + 2
    if plan is not counts:
        assert streams.numbers(output) == [*range(12)]


@needs_built_in
def test_the_first_batch_after_the_builtin_connector_is_not_done_twice(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    for number, form in enumerate(("eoskafka", "kafka", "eoskafka")):
        streams.form = form
        streams.send(topic, 2 * number, 2 * number + 1)
        streams.copy(topic, output, checkpoint)
    # As if its driver had died before it logged the batch as done.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    streams.send(topic, 6)
    streams.copy(topic, output, checkpoint)
    assert streams.numbers(output) == [*range(7)]


def one_batch(streams: Streams, writer: DataStreamWriter) -> None:
    """Run a query's first batch, and stop it before it looks for another."""
    query = streams.start(writer.trigger(processingTime="1 hour"))
    until(lambda: len(reports(query)) > 0, "the batch", QUERY_S)
    query.stop()


@needs_built_in
def test_only_the_sink_goes_to_the_other_connector_and_back(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    for number, form in enumerate(("eoskafka", "kafka", "eoskafka")):
        streams.send(topic, 2 * number, 2 * number + 1)
        one_batch(streams, streams.sink(kv(streams.source(topic)), output, checkpoint).format(form))
    assert streams.numbers(output) == [*range(6)]


@needs_built_in
def test_offsets_that_expired_while_the_other_connector_ran(streams: Streams) -> None:
    topic, output, group = streams.topic(), streams.topic(), streams.group()
    checkpoint, options = streams.checkpoint(), {"kafka.group.id": group}
    for number, form in enumerate(("eoskafka", "kafka", "eoskafka")):
        streams.form = form
        if number == 2:
            streams.admin.delete_groups([group])
        streams.send(topic, 2 * number, 2 * number + 1)
        streams.copy(topic, output, checkpoint, options if form == "eoskafka" else None)
    assert streams.numbers(output) == [*range(6)]


@needs_built_in
def test_a_path_that_the_other_connector_has_used_anew_is_refused(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(records=8), streams.topic(), streams.checkpoint()
    streams.copy(topic, output, checkpoint)
    shutil.rmtree(checkpoint)
    streams.form, other = "kafka", streams.topic()
    limited = streams.source(topic, {"maxOffsetsPerTrigger": 2})
    one_batch(streams, streams.sink(kv(limited), other, checkpoint))
    streams.form = "eoskafka"
    error = streams.failure(streams.sink(kv(streams.source(topic)), other, checkpoint))
    assert "[EOSKAFKA_LOG_BEHIND_GROUP]" in error
    # The command that the error names. It must say where both partitions continue.
    (group,) = re.findall("group '([^']+)' is at", error)
    with pytest.raises(
        OffsetsError, match=f"at offset 1 of {topic}-1, but group '{group}' is at 4"
    ):
        offsets.adopt(streams.servers, str(checkpoint), group, at=json.dumps({topic: {"0": 1}}))
    at = json.dumps({topic: {"0": 1, "1": 1}})
    offsets.adopt(streams.servers, str(checkpoint), group, at=at)
    streams.copy(topic, other, checkpoint)
    assert streams.numbers(other) == [*range(8)]


def test_a_source_without_news_is_no_sign_of_another_connector(streams: Streams) -> None:
    busy, idle, output = streams.topic(records=2), streams.topic(), streams.topic()
    checkpoint = streams.checkpoint()

    def run() -> None:
        rows = [
            kv(
                streams.source(
                    topic, {"kafka.group.id": f"{output}-{topic}", "ownership": "shared"}
                )
            )
            for topic in (busy, idle)
        ]
        streams.run(streams.sink(rows[0].union(rows[1]), output, checkpoint))

    run()
    streams.send(busy, 2, 3)
    run()
    streams.send(idle, 4)
    run()
    assert streams.numbers(output) == [*range(5)]
