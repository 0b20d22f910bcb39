"""`eoskafka offsets`: where a query stands, and a query that is moved on purpose (`reset`)."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.errors import OffsetsError
from eoskafka.offsets import Move, State, standing
from harness import until, until_ended
from movable import Movable
from streams import QUERY_S, Streams, command, kv


@pytest.fixture
def job(streams: Streams) -> Movable:
    """Ten records that were written, and two that were not."""
    job = Movable(streams, records=10)
    job.run()
    streams.send(job.input, 10, 11)
    return job


# ---- looking


def test_where_a_query_stands(job: Movable) -> None:
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


def test_the_end_is_what_can_be_read(job: Movable) -> None:
    with job.streams.open_transaction(job.input, 90, 91, 92, 93):
        found = offsets.show(job.streams.servers, job.group).positions
        assert [each.end for each in found] == [6, 6]
        assert sum(each.open_records for each in found) == 4
        assert [each.lag for each in found] == [1, 1]


def test_an_offset_in_an_open_transaction_is_pending(job: Movable) -> None:
    with job.offsets_in_an_open_transaction(1, 6) as name:
        found = offsets.show(job.streams.servers, job.group)
        assert [each.state for each in found.positions] == [State.STABLE, State.PENDING]
        assert name in found.pending_in
    found = offsets.show(job.streams.servers, job.group)
    assert [each.state for each in found.positions] == [State.STABLE, State.STABLE]
    assert found.pending_in == ()


def test_a_group_without_offsets_and_a_topic_that_is_gone(job: Movable) -> None:
    assert offsets.show(job.streams.servers, "nobody").positions == ()
    job.streams.delete(job.input)
    # The broker drops its offsets a little later.
    for each in offsets.show(job.streams.servers, job.group).positions:
        assert (each.is_same_topic, each.lag) == (False, None)


def test_the_command_shows_it(job: Movable, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_query_does_everything_again_from_the_earliest_offset(job: Movable) -> None:
    assert [(each.before, each.after) for each in job.moved("earliest")] == [(5, 0), (5, 0)]
    job.run()
    assert job.written() == sorted([*range(10), *range(12)])


def test_and_leaves_out_what_is_before_the_latest_one(job: Movable) -> None:
    job.moved("latest")
    job.streams.send(job.input, 12, 13)
    job.run()
    assert job.written() == [*range(10), 12, 13]


def test_a_query_that_reads_open_transactions_is_not_taken_back_by_latest(streams: Streams) -> None:
    job = Movable(streams, records=2)
    with streams.open_transaction(job.input, 90, 91):
        options = {"kafka.group.id": job.group, "kafka.isolation.level": "read_uncommitted"}
        rows = kv(streams.source(job.input, options))
        streams.run(streams.sink(rows, job.output, job.checkpoint))
        assert sum(streams.offsets(job.group, job.input).values()) == 4
        assert job.moved("latest") == ()


def test_a_query_goes_on_at_named_offsets(job: Movable) -> None:
    assert job.moved(json.dumps({job.input: {"0": 3}})) == (Move(job.input, 0, 5, 3),)
    job.run()
    # Even numbers are in partition 0.
    assert job.written() == sorted([*range(10), 6, 8, 10, 11])
    job.moved(json.dumps({job.input: "latest"}))
    job.run()
    assert len(job.written()) == 14


@pytest.mark.parametrize("form", ["ms", "iso"])
def test_a_query_goes_on_at_a_time(streams: Streams, form: str) -> None:
    job = Movable(streams)
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
    job = Movable(streams, records=10)
    rows = kv(streams.source(job.input, {"kafka.group.id": job.group, "ownership": "shared"}))
    writer = streams.sink(rows, job.output, job.checkpoint)
    streams.run(writer)
    streams.wait_empty(job.group)
    job.moved("earliest")
    streams.run(writer)
    assert job.written() == sorted([*range(10)] * 2)


def test_a_dry_run_changes_nothing(job: Movable) -> None:
    before = job.streams.committed(job.group, job.input)
    assert len(job.moved("earliest", dry_run=True)) == 2
    assert job.streams.committed(job.group, job.input) == before


def test_the_command_moves_a_query(job: Movable, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_query_that_runs_is_not_moved(job: Movable) -> None:
    query = job.streams.start(job.writer().trigger(processingTime="200 milliseconds"))
    until(lambda: job.written() == [*range(12)], "the batch", QUERY_S)
    error = job.refused("earliest")
    assert "Stop its query first" in error
    assert "eoskafka-driver" in error or "client" in error
    assert query.isActive


def test_offsets_that_may_still_come_are_waited_for(job: Movable) -> None:
    with job.offsets_in_an_open_transaction(0, 6) as name:
        assert name in job.refused("earliest")
    job.moved("earliest")


def test_and_so_are_those_in_a_transaction_that_no_list_has(
    job: Movable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As a user who may not describe its id sees it.
    monkeypatch.setattr(standing, "open_transactions", lambda *_: ())
    where = ("--group", job.group, "--bootstrap-servers", job.streams.servers)
    with job.offsets_in_an_open_transaction(0, 6):
        assert "one that the brokers do not list" in job.refused("earliest")
        _, out, _ = command(capsys, "offsets", "show", *where)
        assert "pending" in out
        assert "lacks Describe on its transactional id" in out
    job.moved("earliest")


def test_an_offset_that_a_short_run_changes_during_the_command_is_not_moved(
    job: Movable, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = job.streams.committed(job.group, job.input)[1].metadata

    def then_a_run(*given: Any) -> Any:
        found = standing.snapshot(*given)
        job.streams.set_offsets(job.group, job.input, {1: (6, stamp)})
        return found

    monkeypatch.setattr("eoskafka.offsets.move.snapshot", then_a_run)
    with pytest.raises(OffsetsError, match=rf"of {job.input}-1 in group .* have changed while"):
        job.moved("earliest")
    assert job.streams.offsets(job.group, job.input) == {0: 5, 1: 6}


@pytest.mark.parametrize("call", ["open_transactions", "pending"])
def test_an_offset_that_a_transaction_changes_during_the_command_is_moved_too(
    job: Movable, monkeypatch: pytest.MonkeyPatch, call: str
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
def test_places_that_do_not_exist_are_refused(job: Movable, to: str, why: str) -> None:
    assert why in job.refused(to)


def test_topics_that_the_group_does_not_have_are_refused(job: Movable) -> None:
    with pytest.raises(OffsetsError, match="has no offsets of typo"):
        job.moved("earliest", topics=[job.input, "typo"])


def test_settings_that_the_client_does_not_take(
    job: Movable, capsys: pytest.CaptureFixture[str]
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


def test_offsets_beyond_the_log_are_refused(job: Movable) -> None:
    error = job.refused(json.dumps({job.input: {"0": 99}}))
    assert "has the offsets 0 to 6, and not 99" in error


def test_a_query_in_epoch_scope_is_not_moved(streams: Streams) -> None:
    job = Movable(streams, records=10)
    job.run(transactionScope="epoch")
    assert "checkpoint says where it continues" in job.refused("earliest")


def test_offsets_of_others_are_not_moved(job: Movable) -> None:
    job.streams.set_offsets(job.group, job.input, {0: (2, "")})
    assert "another application's" in job.refused("earliest")


def test_a_topic_that_was_created_again_is_taken_up_where_it_is_told(job: Movable) -> None:
    job.streams.delete(job.input)
    job.streams.create(job.input, 2)
    job.streams.send(job.input, 20, 21, 22, 23)
    # The broker may have dropped the offsets with the topic.
    if len(job.streams.offsets(job.group, job.input)) == 2:
        job.moved("earliest")
        job.run()
        assert job.written() == [*range(10), 20, 21, 22, 23]
