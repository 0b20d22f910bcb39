"""`eoskafka offsets`: where a query stands, and a query that is moved on purpose."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.offsets import Move, Situation, State, standing
from harness import until, until_ended
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from pyspark.sql.streaming import DataStreamWriter
from streams import QUERY_S, Streams, command, kv


class Job:
    """One query from a topic with two partitions to another."""

    def __init__(self, streams: Streams, records: int = 0) -> None:
        self.streams = streams
        self.input = streams.topic(records=records)
        self.output = streams.topic()
        self.group = streams.group()
        self.checkpoint = streams.checkpoint()

    def writer(self, group: str | None = None, **options: str) -> DataStreamWriter:
        given = {"kafka.group.id": group or self.group} if self.streams.form == "eoskafka" else {}
        rows = kv(self.streams.source(self.input, given))
        return self.streams.sink(rows, self.output, self.checkpoint, options)

    def run(self, **options: str) -> None:
        self.streams.run(self.writer(**options))

    def written(self) -> list[int]:
        return self.streams.numbers(self.output)

    def moved(self, to: str, **how: Any) -> tuple[Move, ...]:
        return offsets.reset(self.streams.servers, self.group, to, **how)

    def refused(self, to: str) -> str:
        before = self.streams.committed(self.group, self.input)
        with pytest.raises((OffsetsError, ConfigurationError)) as error:
            self.moved(to)
        assert self.streams.committed(self.group, self.input) == before
        return str(error.value)

    def adopted(self, **how: Any) -> offsets.Adoption:
        return offsets.adopt(self.streams.servers, str(self.checkpoint), **how)

    @contextmanager
    def offsets_in_an_open_transaction(self, partition: int, offset: int) -> Iterator[str]:
        """As an executor leaves them whose driver has died."""
        name = f"left-{self.group}"
        with self.transaction(name, partition, OffsetAndMetadata(offset, "", -1)) as producer:
            yield name
            producer.abort_transaction()
        until_ended(self.streams.servers, name)

    @contextmanager
    def transaction(
        self, name: str, partition: int, offset: OffsetAndMetadata
    ) -> Iterator[KafkaProducer]:
        """A transaction with an offset of the group."""
        with closing(
            KafkaProducer(bootstrap_servers=self.streams.servers, transactional_id=name)
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                {TopicPartition(self.input, partition): offset}, self.group
            )
            yield producer


@pytest.fixture
def job(streams: Streams) -> Job:
    """Ten records that were written, and two that were not."""
    job = Job(streams, records=10)
    job.run()
    streams.send(job.input, 10, 11)
    return job


# ---- looking


def test_where_a_query_stands(job: Job) -> None:
    found = offsets.show(job.streams.servers, job.group)
    assert (found.group, found.ownership, found.members) == (job.group, "exclusive", ())
    assert [(p.partition, p.committed, p.end, p.lag) for p in found.positions] == [
        (0, 5, 6, 1),
        (1, 5, 6, 1),
    ]
    for each in found.positions:
        assert (each.state, each.kind, each.scope, each.epoch) == (State.STABLE, "ours", "task", 0)
        assert each.is_same_topic
    assert len({each.identity for each in found.positions}) == 1


def test_the_end_is_what_can_be_read(job: Job) -> None:
    with job.streams.open_transaction(job.input, 90, 91, 92, 93):
        found = offsets.show(job.streams.servers, job.group).positions
        assert [each.end for each in found] == [6, 6]
        assert sum(each.open_records for each in found) == 4
        assert [each.lag for each in found] == [1, 1]


def test_an_offset_in_an_open_transaction_is_pending(job: Job) -> None:
    with job.offsets_in_an_open_transaction(1, 6) as name:
        found = offsets.show(job.streams.servers, job.group)
        assert [each.state for each in found.positions] == [State.STABLE, State.PENDING]
        assert name in found.pending_in
    found = offsets.show(job.streams.servers, job.group)
    assert [each.state for each in found.positions] == [State.STABLE, State.STABLE]
    assert found.pending_in == ()


def test_a_group_without_offsets_and_a_topic_that_is_gone(job: Job) -> None:
    assert offsets.show(job.streams.servers, "nobody").positions == ()
    job.streams.delete(job.input)
    # The broker drops its offsets a little later.
    for each in offsets.show(job.streams.servers, job.group).positions:
        assert (each.is_same_topic, each.lag) == (False, None)


def test_the_command_shows_it(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--group", job.group, "--bootstrap-servers", job.streams.servers)
    code, out, _ = command(capsys, "offsets", "show", *where)
    assert code == 0
    assert f"group {job.group} (ownership=exclusive)" in out
    assert "task, batch 0" in out
    code, out, _ = command(capsys, "offsets", "show", *where, "--format", "json")
    (group,) = json.loads(out)["groups"]
    assert [each["lag"] for each in group["positions"]] == [1, 1]
    code, out, _ = command(
        capsys, "offsets", "lag", "--bootstrap-servers", job.streams.servers, "--format", "json"
    )
    rows = {row["group"]: row for row in json.loads(out)["topics"]}
    assert rows[job.group] == {
        "group": job.group,
        "topic": job.input,
        "partitions": 2,
        "without_offset": 0,
        "lag": 2,
        "max_lag": 1,
    }


def test_brokers_that_do_not_answer_end_it_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command(
        capsys, "offsets", "show", "--group", "g", "--bootstrap-servers", "127.0.0.1:9"
    )
    assert (code, out) == (3, "")
    assert "127.0.0.1:9" in err


# ---- reset


def test_a_query_does_everything_again_from_the_earliest_offset(job: Job) -> None:
    assert [(each.before, each.after) for each in job.moved("earliest")] == [(5, 0), (5, 0)]
    job.run()
    assert job.written() == sorted([*range(10), *range(12)])


def test_and_leaves_out_what_is_before_the_latest_one(job: Job) -> None:
    job.moved("latest")
    job.streams.send(job.input, 12, 13)
    job.run()
    assert job.written() == [*range(10), 12, 13]


def test_a_query_that_reads_open_transactions_is_not_taken_back_by_latest(streams: Streams) -> None:
    job = Job(streams, records=2)
    with streams.open_transaction(job.input, 90, 91):
        options = {"kafka.group.id": job.group, "kafka.isolation.level": "read_uncommitted"}
        rows = kv(streams.source(job.input, options))
        streams.run(streams.sink(rows, job.output, job.checkpoint))
        assert sum(streams.offsets(job.group, job.input).values()) == 4
        assert job.moved("latest") == ()


def test_a_query_goes_on_at_named_offsets(job: Job) -> None:
    assert job.moved(json.dumps({job.input: {"0": 3}})) == (Move(job.input, 0, 5, 3),)
    job.run()
    # Even numbers are in partition 0.
    assert job.written() == sorted([*range(10), 6, 8, 10, 11])
    job.moved(json.dumps({job.input: "latest"}))
    job.run()
    assert len(job.written()) == 14


@pytest.mark.parametrize("form", ["ms", "iso"])
def test_a_query_goes_on_at_a_time(streams: Streams, form: str) -> None:
    job = Job(streams)
    # Not long ago: brokers remove what is older than a week.
    noon = int(time.time()) // 1000 * 1_000_000
    for number in range(6):
        streams.send(job.input, number, partition=0, at_ms=noon + number * 1_000)
    job.run()
    moment = datetime.fromtimestamp((noon + 4_000) / 1_000, timezone.utc)
    job.moved(str(noon + 4_000) if form == "ms" else moment.isoformat().replace("+00:00", "Z"))
    job.run()
    assert job.written() == [0, 1, 2, 3, 4, 4, 5, 5]


def test_a_query_in_a_shared_group_can_be_moved(streams: Streams) -> None:
    job = Job(streams, records=10)
    rows = kv(streams.source(job.input, {"kafka.group.id": job.group, "ownership": "shared"}))
    writer = streams.sink(rows, job.output, job.checkpoint)
    streams.run(writer)
    streams.wait_empty(job.group)
    job.moved("earliest")
    streams.run(writer)
    assert job.written() == sorted([*range(10)] * 2)


def test_a_dry_run_changes_nothing(job: Job) -> None:
    before = job.streams.committed(job.group, job.input)
    assert len(job.moved("earliest", dry_run=True)) == 2
    assert job.streams.committed(job.group, job.input) == before


def test_the_command_moves_a_query(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--group", job.group, "--bootstrap-servers", job.streams.servers)
    code, out, err = command(capsys, "offsets", "reset", "--to", "earliest", *where, "--dry-run")
    assert code == 0
    assert job.input in out
    assert "2 partitions would be moved" in err
    code, out, _ = command(
        capsys, "offsets", "reset", "--to", "earliest", *where, "--format", "json"
    )
    assert [move["after"] for move in json.loads(out)["moves"]] == [0, 0]
    assert job.streams.offsets(job.group, job.input) == {0: 0, 1: 0}


def test_a_query_that_runs_is_not_moved(job: Job) -> None:
    query = job.streams.start(job.writer().trigger(processingTime="200 milliseconds"))
    until(lambda: job.written() == [*range(12)], "the batch", QUERY_S)
    error = job.refused("earliest")
    assert "Stop its query first" in error
    assert "eoskafka-driver" in error or "client" in error
    assert query.isActive


def test_offsets_that_may_still_come_are_waited_for(job: Job) -> None:
    with job.offsets_in_an_open_transaction(0, 6) as name:
        assert name in job.refused("earliest")
    job.moved("earliest")


@pytest.mark.parametrize("call", ["open_transactions", "_pending"])
def test_an_offset_that_a_transaction_changes_during_the_command_is_moved_too(
    job: Job, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    name = f"ends-{job.group}"
    later = job.streams.committed(job.group, job.input)[1]._replace(offset=6)
    with job.transaction(name, 1, later) as producer:
        real = getattr(standing, call)

        def after_the_commit(*given: Any) -> Any:
            producer.commit_transaction()
            until_ended(job.streams.servers, name)
            return real(*given)

        monkeypatch.setattr(standing, call, after_the_commit)
        (move,) = job.moved(json.dumps({job.input: {"1": 5}}))
    assert (move.before, move.after) == (6, 5)
    assert job.streams.offsets(job.group, job.input) == {0: 5, 1: 5}


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("yesterday", "is not a position"),
        ("2026-11-21T09:30:00", "has no time zone"),
        ('{"t":', "is not JSON with offsets"),
        ("{}", "no partition is named"),
        ('{"t":{}}', "no partition of t is named"),
        ("1763716800", "If it is in seconds, or a date"),
        ("20261121", "If it is in seconds, or a date"),
        ("2026-11-21", "write 2026-11-21T00:00:00Z"),
        ("9" * 20, "is not a plausible time"),
        ("²", "is not a position"),
        ('{"t":{"0":"x"}}', "is not an offset"),
        ('{"no-such-topic":{"0":1}}', "has no offsets of no-such-topic"),
    ],
)
def test_places_that_do_not_exist_are_refused(job: Job, to: str, why: str) -> None:
    assert why in job.refused(to)


def test_topics_that_the_group_does_not_have_are_refused(job: Job) -> None:
    with pytest.raises(OffsetsError, match="has no offsets of typo"):
        job.moved("earliest", topics=[job.input, "typo"])


def test_settings_that_the_client_does_not_take(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("show", "--group", job.group, "--bootstrap-servers")
    for more in (
        (job.streams.servers, "-X", "foo=bar"),
        ("localhost:abc",),
    ):
        code, _, err = command(capsys, "offsets", *where, *more)
        assert code == 1
        assert "the client refuses an address or a setting" in err
    timeout = ("-X", "request.timeout.ms=20000")
    assert command(capsys, "offsets", *where, job.streams.servers, *timeout)[0] == 0


def test_offsets_beyond_the_log_are_refused(job: Job) -> None:
    error = job.refused(json.dumps({job.input: {"0": 99}}))
    assert "has the offsets 0 to 6, and not 99" in error


def test_a_query_in_epoch_scope_is_not_moved(streams: Streams) -> None:
    job = Job(streams, records=10)
    job.run(transactionScope="epoch")
    assert "checkpoint says where it continues" in job.refused("earliest")


def test_offsets_of_others_are_not_moved(job: Job) -> None:
    job.streams.set_offsets(job.group, job.input, {0: (2, "")})
    assert "another application's" in job.refused("earliest")


def test_a_topic_that_was_created_again_is_taken_up_where_it_is_told(job: Job) -> None:
    job.streams.delete(job.input)
    job.streams.create(job.input, 2)
    job.streams.send(job.input, 20, 21, 22, 23)
    # The broker may have dropped the offsets with the topic.
    if len(job.streams.offsets(job.group, job.input)) == 2:
        job.moved("earliest")
        job.run()
        assert job.written() == [*range(10), 20, 21, 22, 23]


# ---- adopt


def test_a_query_goes_on_where_another_application_has_stopped(streams: Streams) -> None:
    job = Job(streams, records=10)
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


def test_offsets_that_a_tool_has_set_are_given_to_their_query(job: Job) -> None:
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
    job: Job, overwritten: int
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


def test_an_offset_of_a_partition_that_no_batch_has_planned_is_not_taken_either(job: Job) -> None:
    job.streams.add_partitions(job.input, 3)
    job.streams.send(job.input, 12, partition=2)
    job.streams.set_offsets(job.group, job.input, {2: (1, "")})
    with pytest.raises(OffsetsError, match=rf"no batch of .* has read {job.input}-2"):
        job.adopted()
    job.adopted(at=json.dumps({job.input: {"2": 0}}))
    job.run()
    assert job.written() == [*range(13)]


def test_nor_is_one_of_a_query_whose_batches_are_not_logged(job: Job) -> None:
    # In real-time mode Spark logs a batch when it is over.
    for name in ("offsets", "commits"):
        shutil.rmtree(job.checkpoint / name)
    job.streams.set_offsets(job.group, job.input, {0: (6, ""), 1: (6, "")})
    with pytest.raises(OffsetsError, match=rf"no batch of .* has read {job.input}-0"):
        job.adopted()
    job.adopted(at=json.dumps({job.input: {"0": 5, "1": 5}}))
    job.run()
    assert job.written() == [*range(12)]


def test_the_end_of_a_batch_that_was_not_finished_is_not_taken_either(job: Job) -> None:
    (job.checkpoint / "commits" / "0").unlink()
    job.streams.set_offsets(job.group, job.input, {0: (5, ""), 1: (5, "")})
    with pytest.raises(OffsetsError, match="whether it took effect is not known"):
        job.adopted()


def test_a_query_whose_offsets_are_gone_goes_on_where_it_is_told(job: Job) -> None:
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
    job: Job,
) -> None:
    job.moved(json.dumps({job.input: {"0": 3}}))
    (job.checkpoint / "sources" / "0" / "eoskafka-identity.json").unlink()
    found = job.adopted(group=job.group, at=json.dumps({job.input: {"1": 5}}))
    assert found.moves == (Move(job.input, 1, 5, 5),)
    job.run()
    assert job.written() == sorted([*range(12), 6, 8])


def test_another_querys_offsets_are_taken_over_when_it_is_said(job: Job) -> None:
    job.checkpoint = job.streams.checkpoint()
    with pytest.raises(OffsetsError, match="--take-over"):
        job.adopted(group=job.group)
    assert "EOSKAFKA_FOREIGN_STAMP" in job.streams.failure(job.writer())
    job.checkpoint = job.streams.checkpoint()
    assert job.adopted(group=job.group, take_over=True).situation is Situation.ADOPTED
    job.run()
    assert job.written() == [*range(12)]


def test_a_checkpoint_in_epoch_scope_goes_by_its_log(streams: Streams) -> None:
    job = Job(streams, records=10)
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


def test_all_offsets_of_a_query_are_gone(job: Job) -> None:
    job.streams.wait_empty(job.group)
    job.streams.admin.delete_groups([job.group])
    with pytest.raises(OffsetsError, match=f"no offset of {job.input}-0, {job.input}-1, though"):
        job.adopted()
    found = job.adopted(at=json.dumps({job.input: {"0": 5, "1": 5}}))
    assert len(found.moves) == 2
    job.run()
    assert job.written() == [*range(12)]


def test_a_checkpoint_of_the_builtin_connector_is_looked_at(streams: Streams) -> None:
    job = Job(streams, records=10)
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
    job = Job(streams, records=10)
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
    job = Job(streams, records=10)
    streams.form = "kafka"
    job.run()
    streams.set_offsets(job.group, job.input, {0: (1, "")})
    with pytest.raises(OffsetsError, match="another kafka"):
        job.adopted(group=job.group)
    streams.delete(job.input)
    with pytest.raises(OffsetsError, match="Is it this cluster"):
        job.adopted()


def test_a_builtin_checkpoint_goes_on_where_it_is_told(streams: Streams) -> None:
    job = Job(streams, records=10)
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


def test_a_checkpoint_on_another_file_system(job: Job) -> None:
    found = offsets.adopt(job.streams.servers, job.checkpoint.as_uri())
    assert found.situation is Situation.READY
    with pytest.raises(ConfigurationError, match="on no file system"):
        offsets.adopt(job.streams.servers, "dbfs://checkpoints/payments")


def test_a_checkpoint_that_is_made_is_told(
    streams: Streams, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(streams, records=4)
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


def test_a_checkpoint_without_a_group_or_with_another_one(job: Job, tmp_path: Path) -> None:
    with pytest.raises(OffsetsError, match="knows no group"):
        offsets.adopt(job.streams.servers, str(tmp_path / "new"))
    with pytest.raises(OffsetsError, match="belongs to group"):
        job.adopted(group="another")
    with pytest.raises(OffsetsError, match="has no offsets"):
        offsets.adopt(job.streams.servers, str(tmp_path / "new"), group=job.streams.group())
