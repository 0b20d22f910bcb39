"""Where a query goes on after a restart: the group's offset, Spark's log, or nowhere.

Each test is a row of the table: it makes the situation, starts the query, and looks at the output.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from harness import until
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from pyspark.sql.streaming.readwriter import DataStreamWriter
from streams import QUERY_S, Job, Streams, kv


@pytest.fixture
def job(streams: Streams) -> Job:
    """Two partitions, nothing in them."""
    return Job(streams, streams.topic(), streams.topic(), streams.group(), streams.checkpoint())


# ---- our identity, task-scope stamp: the group


def lose_a_batch(job: Job, kept: Path) -> None:
    """Two batches, and a checkpoint that knows of the first only; 6 is for the next."""
    job.send(0, 1, 2, 3)
    job.run()
    shutil.copytree(job.checkpoint, kept)
    job.send(4, 5)
    job.run()
    shutil.rmtree(job.checkpoint)
    shutil.copytree(kept, job.checkpoint)
    job.send(6)


def test_the_group_wins_over_an_older_checkpoint(job: Job, tmp_path: Path) -> None:
    lose_a_batch(job, tmp_path / "older")
    job.run()
    assert job.written() == [0, 1, 2, 3, 4, 5, 6]


def test_the_group_wins_over_a_deleted_checkpoint(job: Job) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    shutil.rmtree(job.checkpoint)
    job.run()
    job.send(4)
    job.run()
    assert job.written() == [0, 1, 2, 3, 4]


def test_a_partition_added_before_the_checkpoint_was_deleted_starts_at_its_beginning(
    job: Job,
) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    job.streams.add_partitions(job.input, 3)
    job.send(4, 5, partition=2)
    shutil.rmtree(job.checkpoint)
    job.run(startingOffsets="latest")
    assert job.written() == [0, 1, 2, 3, 4, 5]


def test_the_group_wins_over_a_spark_log_that_lacks_its_last_commit(job: Job) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    (job.checkpoint / "commits" / "0").unlink()
    (job.checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    job.run()
    assert job.written() == [0, 1, 2, 3]


def test_the_group_wins_over_a_spark_log_that_is_ahead(job: Job) -> None:
    # As if Spark had logged a batch whose transaction never committed.
    job.send(0, 1, 2, 3)
    job.run()
    job.tamper(dict.fromkeys((0, 1), 1))
    job.run()
    assert job.written() == [0, 1, 2, 2, 3, 3]
    assert job.offsets() == {0: 2, 1: 2}


def test_invariant_3_a_start_waits_for_a_transaction_that_is_open_over_its_offsets(
    job: Job,
) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    job.send(4, 5, 6, 7)
    before = job.streams.committed(job.group, job.input)
    # Nothing that the start may end: only to wait for it gives the right offsets.
    with closing(
        KafkaProducer(
            bootstrap_servers=job.streams.servers, transactional_id=f"{job.group}-another"
        )
    ) as another:
        another.init_transactions()
        another.begin_transaction()
        another.send_offsets_to_transaction(
            {
                TopicPartition(job.input, p): OffsetAndMetadata(
                    there.offset + 1, there.metadata, -1
                )
                for p, there in before.items()
            },
            job.group,
        )
        query = job.streams.start(job.writer())
        until(lambda: job.streams.members(job.group), "the driver's join", QUERY_S)
        waited = time.monotonic() + 3
        while time.monotonic() < waited:
            assert query.isActive
            assert job.written() == [0, 1, 2, 3]
        another.commit_transaction()
    assert query.awaitTermination(QUERY_S)
    assert query.exception() is None
    assert job.written() == [0, 1, 2, 3, 6, 7]
    progress = query.lastProgress
    assert progress is not None
    (source,) = progress["sources"]
    assert int(source["metrics"]["stableOffsetWaitMs"]) >= 1_000


def test_a_moved_checkpoint_keeps_its_identity(streams: Streams) -> None:
    topic, output, first = streams.topic(records=4), streams.topic(), streams.checkpoint()
    streams.copy(topic, output, first)
    second = streams.checkpoint()
    shutil.move(first, second)
    streams.send(topic, 4)
    streams.copy(topic, output, second)
    assert streams.numbers(output) == [0, 1, 2, 3, 4]


# ---- no offset of the group, a log of the built-in connector: the log


def write_builtin_checkpoint(job: Job, batches: list[dict[int, int]], committed: int) -> None:
    """A checkpoint as Spark and its own `kafka` source write it.

    Args:
        batches: by partition, the initial offsets and the end of each batch.
        committed: how many of the batches are in the commit log.
    """

    def offsets(of: dict[int, int]) -> str:
        return json.dumps({job.input: {str(p): o for p, o in of.items()}})

    conf = {"spark.sql.shuffle.partitions": "2"}
    header = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1700000000000, "conf": conf})
    files = {
        "metadata": json.dumps({"id": str(uuid.uuid4())}),
        # A zero byte and a version line come first (SPARK-19517).
        "sources/0/0": f"\0v1\n{offsets(batches[0])}",
    }
    for number, end in enumerate(batches[1:]):
        files[f"offsets/{number}"] = f"v1\n{header}\n{offsets(end)}"
    for number in range(committed):
        files[f"commits/{number}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    for name, text in files.items():
        path = job.checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_checkpoint_of_the_builtin_connector_goes_on_after_its_last_batch(job: Job) -> None:
    for partition in (0, 1):
        job.send(*range(partition * 100, partition * 100 + 10), partition=partition)
    write_builtin_checkpoint(job, [{0: 0, 1: 0}, {0: 3, 1: 2}, {0: 6, 1: 4}], committed=2)
    job.run()
    assert job.written() == [*range(6, 10), *range(104, 110)]
    job.send(200)
    job.run()
    assert job.written() == [*range(6, 10), *range(104, 110), 200]


def test_an_unfinished_batch_of_the_builtin_connector_is_done_again(job: Job) -> None:
    for partition in (0, 1):
        job.send(*range(partition * 100, partition * 100 + 10), partition=partition)
    write_builtin_checkpoint(job, [{0: 0, 1: 0}, {0: 3, 1: 2}, {0: 6, 1: 4}], committed=1)
    job.run()
    assert job.written() == [*range(3, 10), *range(102, 110)]


def test_an_unfinished_first_batch_of_the_builtin_connector_is_done_again(job: Job) -> None:
    job.send(*range(10), partition=0)
    write_builtin_checkpoint(job, [{0: 2, 1: 0}, {0: 6, 1: 0}], committed=0)
    job.run()
    assert job.written() == [*range(2, 10)]


# ---- no offset of the group, a log of our own: an error


def test_deleted_group_offsets_stop_the_query(job: Job) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    job.leave()
    job.streams.admin.delete_groups([job.group])
    job.send(4)
    error = job.failure()
    assert "[EOSKAFKA_OFFSETS_GONE]" in error
    assert job.group in error
    assert "startingOffsets" in error
    assert job.written() == [0, 1, 2, 3]


def test_one_partitions_deleted_offset_stops_the_query(job: Job) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    job.leave()
    job.streams.admin.delete_group_offsets(job.group, [TopicPartition(job.input, 1)])
    job.send(4, 5)
    error = job.failure()
    assert "[EOSKAFKA_OFFSETS_GONE]" in error
    assert f"no offset for {job.input}-1" in error
    assert job.written() == [0, 1, 2, 3]


@pytest.mark.parametrize("ownership", ["exclusive", "shared"])
def test_offsets_that_went_while_a_topic_was_not_chosen_stop_the_query(
    job: Job, ownership: str
) -> None:
    other = job.streams.topic()

    def writer(pattern: str) -> DataStreamWriter:
        options = {
            "subscribePattern": pattern,
            "kafka.group.id": job.group,
            "ownership": ownership,
            "failOnDataLoss": "false",
        }
        return job.streams.sink(kv(job.streams.source(options=options)), job.output, job.checkpoint)

    both = f"{job.input}|{other}"
    job.send(0, 1)
    job.streams.send(other, 10, 11)
    job.streams.run(writer(both))
    job.send(2, 3)
    job.streams.run(writer(job.input))
    job.leave()
    # As the broker does in time.
    job.streams.admin.delete_group_offsets(
        job.group, [TopicPartition(other, 0), TopicPartition(other, 1)]
    )
    error = job.streams.failure(writer(both))
    assert "[EOSKAFKA_OFFSETS_GONE]" in error
    assert f"no offset for {other}" in error
    assert job.written() == [0, 1, 2, 3, 10, 11]


# ---- neither: startingOffsets, once


def test_latest_does_not_move_between_the_first_start_and_the_first_batch(job: Job) -> None:
    job.send(0, 1)
    job.run(startingOffsets="latest")
    job.send(2, 3)
    job.run(startingOffsets="latest")
    assert job.written() == [2, 3]


def test_latest_does_not_move_if_the_first_start_dies_before_it_commits(job: Job) -> None:
    job.send(0, 1)
    job.run(startingOffsets="latest")
    # What a start leaves that wrote the initial offsets and died.
    job.leave()
    job.streams.admin.delete_groups([job.group])
    (job.checkpoint / "sources" / "0" / "eoskafka-identity.json").unlink()
    job.send(2, 3)
    job.run(startingOffsets="latest")
    assert job.written() == [2, 3]


def test_a_partition_added_before_the_first_batch_starts_at_its_beginning(job: Job) -> None:
    job.run(startingOffsets="latest")
    job.streams.add_partitions(job.input, 3)
    job.send(0, 1, partition=2)
    job.run(startingOffsets="latest")
    assert job.written() == [0, 1]


def test_a_partition_added_after_a_crash_before_the_first_batch_starts_at_its_beginning(
    job: Job,
) -> None:
    job.run(startingOffsets="latest")
    job.leave()
    job.streams.admin.delete_groups([job.group])
    (job.checkpoint / "sources" / "0" / "eoskafka-identity.json").unlink()
    job.streams.add_partitions(job.input, 3)
    job.send(0, 1, partition=2)
    job.run(startingOffsets="latest")
    assert job.written() == [0, 1]


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
def test_a_partition_added_later_starts_at_its_beginning(job: Job, running: bool) -> None:
    job.send(0, 1)
    query = None
    if running:
        writer = job.writer(startingOffsets="latest").trigger(processingTime="200 milliseconds")
        query = job.streams.start(writer)
        until(lambda: len(job.offsets()) == 2, "the group's first offsets", QUERY_S)
    else:
        job.run(startingOffsets="latest")
    job.streams.add_partitions(job.input, 4)
    job.send(2, partition=2)
    job.send(3, partition=3)
    if query is None:
        job.run(startingOffsets="latest")
    else:
        until(lambda: job.written() == [2, 3], "records of the new partitions", QUERY_S)
        job.streams.finished(query, job.output)
    assert job.written() == [2, 3]
    assert job.offsets() == {0: 1, 1: 1, 2: 1, 3: 1}


# ---- without our sink: Spark's log


def run_without_our_sink(job: Job, name: str) -> list[int]:
    """Read into memory; what this run of the query saw."""
    rows = job.streams.source(job.input, {"kafka.group.id": job.group})
    job.streams.run(
        kv(rows)
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(availableNow=True)
    )
    values = job.streams.spark.table(name).selectExpr("cast(cast(value as string) as int)")
    return sorted(row[0] for row in values.collect())


def run_to_nowhere(job: Job) -> None:
    """Read into Spark's noop sink."""
    job.streams.run(to_nowhere(job))


def to_nowhere(job: Job) -> DataStreamWriter:
    """The same, not started."""
    rows = job.streams.source(job.input, {"kafka.group.id": job.group})
    return (
        kv(rows)
        .writeStream.format("noop")
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(availableNow=True)
    )


def test_without_our_sink_the_source_reads_everything(job: Job) -> None:
    job.send(0, 1, 2, 3)
    assert run_without_our_sink(job, f"m{job.group}") == [0, 1, 2, 3]


def test_without_our_sink_the_group_follows_sparks_log(job: Job) -> None:
    job.send(0, 1, 2, 3)
    run_to_nowhere(job)
    job.send(4, 5)
    run_to_nowhere(job)
    assert job.offsets() == job.streams.ends(job.input)
    stamps = {o.metadata for o in job.streams.committed(job.group, job.input).values()}
    assert all(stamp.startswith("eoskafka:1:s:") for stamp in stamps)


def test_without_our_sink_the_group_does_not_decide(job: Job) -> None:
    job.send(0, 1, 2, 3)
    run_to_nowhere(job)
    job.send(4, 5)
    job.tamper({0: 0, 1: 0})
    run_to_nowhere(job)
    last = json.loads((job.checkpoint / "offsets" / "1").read_text().splitlines()[-1])
    assert last[job.input] == {"0": 3, "1": 3}
    assert job.offsets() == {0: 3, 1: 3}


def test_without_our_sink_an_older_checkpoint_is_refused_and_moves_no_offset(
    job: Job, tmp_path: Path
) -> None:
    lose_a_batch(job, tmp_path / "older")
    assert "[EOSKAFKA_LOG_BEHIND_GROUP]" in job.streams.failure(to_nowhere(job))
    job.run()
    assert job.written() == [0, 1, 2, 3, 4, 5, 6]


def test_without_our_sink_a_deleted_group_changes_nothing(job: Job) -> None:
    job.send(0, 1, 2, 3)
    run_to_nowhere(job)
    delete_group(job)
    job.send(4, 5)
    run_to_nowhere(job)
    assert job.offsets() == job.streams.ends(job.input)


def test_without_our_sink_a_deleted_group_stops_the_query_if_our_sink_has_run_the_last_batch(
    job: Job,
) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    delete_group(job)
    # What the batch has left, if it ended early, only the group knew.
    assert "[EOSKAFKA_OFFSETS_GONE]" in job.streams.failure(to_nowhere(job))


def delete_group(job: Job) -> None:
    """As the broker does in time with the offsets of a group that has no member."""
    job.leave()
    job.streams.admin.delete_groups([job.group])


def test_our_sink_goes_on_where_another_sink_stopped(job: Job) -> None:
    job.send(0, 1, 2, 3)
    run_to_nowhere(job)
    job.send(4, 5)
    job.run()
    assert job.written() == [4, 5]


# ---- our identity, epoch-scope stamp: Spark's log, which the stamp checks


def test_a_newer_copy_of_the_checkpoint_that_does_not_know_an_epoch_stops_the_query(
    job: Job, tmp_path: Path
) -> None:
    def keep(name: str) -> None:
        shutil.copytree(job.checkpoint, tmp_path / name)

    def restore(name: str) -> None:
        shutil.rmtree(job.checkpoint)
        shutil.copytree(tmp_path / name, job.checkpoint)

    job.send(0, 1)
    job.run()
    keep("older")
    for numbers in ((2, 3), (4, 5), (6, 7)):
        job.send(*numbers)
        job.run()
    keep("newer")
    restore("older")
    job.send(8, 9)
    job.streams.run(job.in_epoch_scope())
    restore("newer")
    job.send(10, 11)
    error = job.streams.failure(job.in_epoch_scope())
    assert "[EOSKAFKA_DECISION_OTHER_PLAN]" in error, error
    assert job.written() == [*range(10)]


def test_a_group_that_is_gone_behind_an_epoch_is_in_sparks_log(job: Job) -> None:
    job.send(0, 1, 2, 3)
    job.streams.run(job.in_epoch_scope())
    job.leave()
    job.streams.admin.delete_groups([job.group])
    job.send(4, 5)
    job.streams.run(job.in_epoch_scope())
    assert job.written() == [0, 1, 2, 3, 4, 5]
    assert job.offsets() == job.streams.ends(job.input)
