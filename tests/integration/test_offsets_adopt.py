"""`eoskafka offsets adopt`: a query gets the offsets that its group has from somebody else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from eoskafka import offsets
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.offsets import Move, Situation
from foreach import run, run_rows, save
from harness import forget
from kafka import TopicPartition
from movable import Movable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from streams import Streams, command, kv


@pytest.fixture
def job(streams: Streams) -> Movable:
    """Ten records that were written, and two that were not."""
    job = Movable(streams, records=10)
    job.run()
    streams.send(job.input, 10, 11)
    return job


def test_a_query_goes_on_where_another_application_has_stopped(streams: Streams) -> None:
    job = Movable(streams, records=10)
    streams.set_offsets(job.group, job.input, {0: (3, "left by a consumer"), 1: (4, "")})
    assert "EOSKAFKA_OFFSET_WITHOUT_STAMP" in streams.failure(job.writer())
    assert job.written() == []

    before = streams.committed(job.group, job.input)
    assert job.adopted(group=job.group, dry_run=True).situation is Situation.ADOPTED
    assert streams.committed(job.group, job.input) == before
    found = job.adopted(group=job.group)
    assert found.situation is Situation.ADOPTED
    assert json.loads(found.start) == {job.input: {"0": 3, "1": 4}}
    assert len(found.moves) == 2
    job.run()
    # Of the even and the odd numbers.
    assert job.written() == [6, 8, 9]
    assert job.adopted().situation is Situation.READY


def test_offsets_that_a_tool_has_set_are_given_to_their_query(job: Movable) -> None:
    job.streams.set_offsets(job.group, job.input, {0: (1, ""), 1: (5, "")})
    assert "EOSKAFKA_OFFSET_WITHOUT_STAMP" in job.streams.failure(job.writer())
    with pytest.raises(OffsetsError, match=f"{job.input}-1"):
        job.adopted(at=json.dumps({job.input: {"0": 1}}))
    told = json.dumps({job.input: {"0": 1, "1": 5}})
    assert job.adopted(at=told).situation is Situation.ADOPTED
    job.run()
    assert job.written() == sorted([*range(12), 2, 4, 6, 8])


# The last one is the end of a batch that was done. A batch that ended early has not got so far.
@pytest.mark.parametrize("overwritten", [6, 4, 5])
def test_offsets_that_replace_a_querys_own_are_not_taken_unless_it_is_said(
    job: Movable, overwritten: int
) -> None:
    job.streams.set_offsets(job.group, job.input, {0: (overwritten, ""), 1: (5, "")})
    error = job.streams.failure(job.writer())
    assert "EOSKAFKA_OFFSET_WITHOUT_STAMP" in error
    assert "--at" in error
    before = job.streams.committed(job.group, job.input)
    with pytest.raises(OffsetsError, match=rf"ends at offset 5 of {job.input}-0") as refused:
        job.adopted()
    assert job.streams.committed(job.group, job.input) == before
    told = json.dumps({job.input: {"0": 5, "1": 5}}, separators=(",", ":"))
    assert told in str(refused.value)
    assert job.adopted(at=told).situation is Situation.ADOPTED
    job.run()
    assert job.written() == [*range(12)]


def test_an_offset_of_a_partition_that_no_batch_has_planned_is_not_taken_either(
    job: Movable,
) -> None:
    job.streams.add_partitions(job.input, 3)
    job.streams.send(job.input, 12, partition=2)
    job.streams.set_offsets(job.group, job.input, {2: (1, "")})
    with pytest.raises(OffsetsError, match=rf"no batch of .* has read {job.input}-2"):
        job.adopted()
    job.adopted(at=json.dumps({job.input: {"2": 0}}))
    job.run()
    assert job.written() == [*range(13)]


def test_nor_is_one_of_a_query_whose_batches_are_not_logged(job: Movable) -> None:
    # In real-time mode Spark logs a batch when it is over.
    for name in ("offsets", "commits"):
        shutil.rmtree(job.checkpoint / name)
    job.streams.set_offsets(job.group, job.input, {0: (6, ""), 1: (6, "")})
    with pytest.raises(OffsetsError, match=rf"no batch of .* has read {job.input}-0"):
        job.adopted()
    job.adopted(at=json.dumps({job.input: {"0": 5, "1": 5}}))
    job.run()
    assert job.written() == [*range(12)]


def test_the_end_of_a_batch_that_was_not_finished_is_not_taken_either(job: Movable) -> None:
    (job.checkpoint / "commits" / "0").unlink()
    job.streams.set_offsets(job.group, job.input, {0: (5, ""), 1: (5, "")})
    with pytest.raises(OffsetsError, match="whether it took effect is not known"):
        job.adopted()


def test_a_query_whose_offsets_are_gone_goes_on_where_it_is_told(job: Movable) -> None:
    job.streams.admin.delete_group_offsets(job.group, [TopicPartition(job.input, 1)])
    assert "--at JSON" in job.streams.failure(job.writer())
    job.streams.wait_empty(job.group)
    with pytest.raises(OffsetsError, match=f"no offset of {job.input}-1, though"):
        job.adopted()
    with pytest.raises(OffsetsError, match="has the offsets 0 to 6"):
        job.adopted(at=json.dumps({job.input: {"1": 7}}))
    found = job.adopted(at=json.dumps({job.input: {"1": 5}}))
    assert found.moves == (Move(job.input, 1, None, 5),)
    assert json.loads(found.start) == {job.input: {"0": 5, "1": 5}}
    job.run()
    assert job.written() == [*range(12)]


def test_offsets_that_are_not_named_stay_also_if_the_checkpoint_has_lost_its_identity(
    job: Movable,
) -> None:
    job.moved(json.dumps({job.input: {"0": 3}}))
    (job.checkpoint / "sources" / "0" / "eoskafka-identity.json").unlink()
    found = job.adopted(group=job.group, at=json.dumps({job.input: {"1": 5}}))
    assert found.moves == (Move(job.input, 1, 5, 5),)
    job.run()
    assert job.written() == sorted([*range(12), 6, 8])


def test_another_querys_offsets_are_taken_over_when_it_is_said(job: Movable) -> None:
    job.checkpoint = job.streams.checkpoint()
    with pytest.raises(OffsetsError, match="--take-over"):
        job.adopted(group=job.group)
    assert "EOSKAFKA_FOREIGN_STAMP" in job.streams.failure(job.writer())
    job.checkpoint = job.streams.checkpoint()
    assert job.adopted(group=job.group, take_over=True).situation is Situation.ADOPTED
    job.run()
    assert job.written() == [*range(12)]


def test_a_checkpoint_in_epoch_scope_goes_by_its_log(streams: Streams) -> None:
    job = Movable(streams, records=10)
    job.run(transactionScope="epoch")
    streams.set_offsets(job.group, job.input, {0: (1, ""), 1: (5, "")})
    with pytest.raises(OffsetsError, match="was in epoch scope"):
        job.adopted()
    # Nor does it need them.
    streams.wait_empty(job.group)
    streams.admin.delete_groups([job.group])
    logged = job.checkpoint / "commits" / "0"
    logged.rename(job.checkpoint / "taken out")
    with pytest.raises(OffsetsError, match=r"batch 0 of .* was not finished: only"):
        job.adopted()
    (job.checkpoint / "taken out").rename(logged)
    found = job.adopted()
    assert found.situation is Situation.READY
    assert json.loads(found.start) == {job.input: {"0": 5, "1": 5}}
    streams.send(job.input, 10)
    job.run(transactionScope="epoch")
    assert job.written() == [*range(11)]


def test_an_older_copy_in_epoch_scope_is_told(streams: Streams, tmp_path: Path) -> None:
    job = Movable(streams, records=4)
    job.run(transactionScope="epoch")
    shutil.copytree(job.checkpoint, tmp_path / "older")
    streams.send(job.input, 4, 5)
    job.run(transactionScope="epoch")
    shutil.rmtree(job.checkpoint)
    shutil.copytree(tmp_path / "older", job.checkpoint)
    with pytest.raises(OffsetsError, match="is an older copy, and the query does not start"):
        job.adopted()
    assert "EOSKAFKA_DECISION_NEWER" in streams.failure(job.writer(transactionScope="epoch"))


def test_a_query_with_a_function_is_not_taken_for_the_builtin_connectors(
    streams: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, output, checkpoint = streams.topic(records=4), streams.topic(), streams.checkpoint()

    def copied() -> None:
        run(streams, topic, checkpoint, lambda frame, _: save(streams, frame, output))

    copied()
    streams.send(topic, 4, 5)
    copied()
    found = offsets.adopt(streams.servers, str(checkpoint))
    assert (found.situation, found.open_batch) == (Situation.OTHER_SINK, None)
    # As it is before Spark has logged the last batch, whose write was decided.
    (checkpoint / "commits" / "1").unlink()
    before = streams.committed(found.group, topic)
    streams.set_offsets(found.group, topic, {p: (2, each.metadata) for p, each in before.items()})
    where = ("--bootstrap-servers", streams.servers)
    code, out, err = command(capsys, "offsets", "adopt", str(checkpoint), *where)
    assert (code, err) == (0, "")
    assert "Start the query with the connector and the sink that began it" in out
    assert "built-in" not in out


def test_the_log_does_not_say_where_a_topic_that_was_created_again_is_read_on(
    streams: Streams,
) -> None:
    """Neither for the partitions that the user does not name."""
    job = Movable(streams, records=10)

    def ignore(batch: DataFrame, number: int) -> None:
        batch.count()

    run(streams, job.input, job.checkpoint, ignore)
    streams.delete(job.input)
    with pytest.raises(OffsetsError, match="Is it this cluster"):
        job.adopted()
    streams.create(job.input, 2)
    streams.send(job.input, *range(100, 120))
    for at in ("", json.dumps({job.input: {"0": 0}})):
        with pytest.raises(OffsetsError, match="was deleted and created again since"):
            job.adopted(at=at)
    assert len(job.adopted(at=json.dumps({job.input: {"0": 0, "1": 3}})).moves) == 2
    streams.run(streams.sink(kv(streams.source(job.input)), job.output, job.checkpoint))
    assert job.written() == sorted([*range(100, 120, 2), *range(107, 120, 2)])


def test_a_start_in_a_new_topic_is_told_and_not_replaced(streams: Streams) -> None:
    """Spark's log does not have it yet, and the connector continues there."""
    job = Movable(streams, records=10)
    fails = False

    def take(batch: DataFrame, number: int) -> None:
        if fails:
            raise ValueError("a batch fails")

    def run_again() -> None:
        rows = kv(streams.source(job.input, {"failOnDataLoss": "false"}))
        run_rows(streams, rows, job.checkpoint, take)

    run_again()
    streams.delete(job.input)
    streams.create(job.input, 2)
    streams.send(job.input, *range(100, 120))
    fails = True
    with pytest.raises(StreamingQueryException, match="a batch fails"):
        run_again()
    # As if the run had ended before its plan was logged.
    forget([job.checkpoint / "offsets" / "1"])
    assert json.loads(job.adopted().start) == {job.input: {"0": 0, "1": 0}}
    with pytest.raises(OffsetsError, match="says where the query continues"):
        job.adopted(at=json.dumps({job.input: {"0": 0, "1": 3}}))
    streams.run(streams.sink(kv(streams.source(job.input)), job.output, job.checkpoint))
    assert job.written() == [*range(100, 120)]
    assert job.adopted().situation is Situation.READY


def test_all_offsets_of_a_query_are_gone(job: Movable) -> None:
    job.streams.wait_empty(job.group)
    job.streams.admin.delete_groups([job.group])
    with pytest.raises(OffsetsError, match=f"no offset of {job.input}-0, {job.input}-1, though"):
        job.adopted()
    found = job.adopted(at=json.dumps({job.input: {"0": 5, "1": 5}}))
    assert len(found.moves) == 2
    job.run()
    assert job.written() == [*range(12)]


def test_a_checkpoint_of_the_builtin_connector_is_looked_at(streams: Streams) -> None:
    job = Movable(streams, records=10)
    streams.form = "kafka"
    job.run()
    streams.form = "eoskafka"
    streams.send(job.input, 10)
    found = job.adopted()
    assert found.situation is Situation.BUILT_IN
    assert json.loads(found.start) == {job.input: {"0": 5, "1": 5}}
    assert found.open_batch is None
    job.run()
    assert job.written() == [*range(11)]
    # And once more, after it went back.
    assert job.adopted().situation is Situation.READY
    streams.send(job.input, 11)
    streams.form = "kafka"
    job.run()
    streams.form = "eoskafka"
    found = job.adopted()
    assert found.situation is Situation.BUILT_IN
    assert sum(json.loads(found.start)[job.input].values()) == 12


def test_a_batch_that_the_builtin_connector_did_not_finish_is_told(
    streams: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Movable(streams, records=10)
    streams.form = "kafka"
    job.run()
    (job.checkpoint / "commits" / "0").unlink()
    found = job.adopted()
    assert (found.open_batch, found.open_records) == (0, 10)
    assert json.loads(found.start) == {job.input: {"0": 0, "1": 0}}
    where = ("--bootstrap-servers", streams.servers)
    code, out, _ = command(capsys, "offsets", "adopt", str(job.checkpoint), *where)
    assert code == 0
    assert "Batch 0 was not finished" in out
    assert "10 offsets are written again" in out


def test_a_builtin_checkpoint_of_another_cluster_or_with_a_used_group_is_refused(
    streams: Streams,
) -> None:
    job = Movable(streams, records=10)
    streams.form = "kafka"
    job.run()
    streams.set_offsets(job.group, job.input, {0: (1, "")})
    with pytest.raises(OffsetsError, match="another kafka"):
        job.adopted(group=job.group)
    streams.delete(job.input)
    with pytest.raises(OffsetsError, match="Is it this cluster"):
        job.adopted()


def test_a_builtin_checkpoint_goes_on_where_it_is_told(streams: Streams) -> None:
    job = Movable(streams, records=10)
    streams.form = "kafka"
    job.run()
    streams.form = "eoskafka"
    found = job.adopted(group=job.group, at=json.dumps({job.input: {"0": 4, "1": 5}}))
    assert (found.situation, len(found.moves)) == (Situation.ADOPTED, 2)
    job.run()
    assert job.written() == sorted([*range(10), 8])


def test_a_builtin_checkpoint_goes_on_elsewhere_in_one_of_its_topics(streams: Streams) -> None:
    one, other, output = streams.topic(records=4), streams.topic(records=4), streams.topic()
    group, checkpoint = streams.group(), streams.checkpoint()

    def run(form: str, **options: str) -> None:
        streams.form = form
        rows = streams.source(options={"subscribe": f"{one},{other}", **options})
        streams.run(streams.sink(kv(rows), output, checkpoint))

    run("kafka")
    streams.send(other, 4)
    at = json.dumps({one: {"0": 1, "1": 2}})
    # The log is taken over once, and so with all of its topics.
    found = offsets.adopt(streams.servers, str(checkpoint), group, [one], at=at)
    assert json.loads(found.start) == {one: {"0": 1, "1": 2}, other: {"0": 2, "1": 2}}
    run("eoskafka", **{"kafka.group.id": group})
    # The second record of the first topic's even ones is done again, and no other.
    assert streams.numbers(output) == sorted([*range(4), *range(5), 2])


def test_a_checkpoint_on_another_file_system(job: Movable) -> None:
    found = offsets.adopt(job.streams.servers, job.checkpoint.as_uri())
    assert found.situation is Situation.READY
    with pytest.raises(ConfigurationError, match="on no file system"):
        offsets.adopt(job.streams.servers, "dbfs://checkpoints/payments")


def test_a_checkpoint_that_is_made_is_told(
    streams: Streams, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Movable(streams, records=4)
    streams.set_offsets(job.group, job.input, {0: (1, "")})
    where = ("--group", job.group, "--bootstrap-servers", streams.servers)
    code, out, _ = command(
        capsys, "offsets", "adopt", str(tmp_path / "mispelt"), *where, "--dry-run"
    )
    assert code == 0
    assert f"There was no checkpoint at {tmp_path / 'mispelt'}; it would be created" in out
    assert "1 partitions have no offset" in out
    assert not (tmp_path / "mispelt").exists()
    (tmp_path / "file").write_text("no folder")
    code, _, err = command(capsys, "offsets", "adopt", str(tmp_path / "file"), *where)
    assert code == 1
    assert "cannot be written" in err
    assert streams.committed(job.group, job.input)[0].metadata == ""


def test_a_checkpoint_without_a_group_or_with_another_one(job: Movable, tmp_path: Path) -> None:
    with pytest.raises(OffsetsError, match="knows no group"):
        offsets.adopt(job.streams.servers, str(tmp_path / "new"))
    with pytest.raises(OffsetsError, match="belongs to group"):
        job.adopted(group="another")
    with pytest.raises(OffsetsError, match="has no offsets"):
        offsets.adopt(job.streams.servers, str(tmp_path / "new"), group=job.streams.group())
