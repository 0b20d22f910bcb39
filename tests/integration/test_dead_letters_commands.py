"""`eoskafka dead-letters`, and `eoskafka verify --dead-letters`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka import DataLossError, FencedError, OffsetsError, replay
from eoskafka.audit import read_committed
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import log_offsets
from eoskafka.cluster import LocalCluster
from eoskafka.replay import run as replay_run
from eoskafka.replay.progress import committed_offsets
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata
from letters import BAD, BEGAN_MS, RECORDS, Case, routed
from streams import Streams, command


@pytest.fixture
def case(streams: Streams) -> Case:
    return Case.of(streams)


def replayed(case: Case, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    servers = ("--bootstrap-servers", case.streams.servers)
    return command(capsys, "dead-letters", "replay", case.dead, *servers, *more)


def test_dead_letters_are_shown_with_their_sources(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.run(routed(case.rows(), case, query="twice"))
    show = ("dead-letters", "show", case.dead, "--bootstrap-servers", case.streams.servers)
    code, out, err = command(capsys, *show, "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["count"] == len(found["dead_letters"]) == len(BAD)
    for each in found["dead_letters"]:
        n = int(each["key"][1:])
        assert each["topic"] == case.dead
        assert each["reason"] == "it is no number"
        assert each["query"] == "twice"
        assert (each["source_topic"], each["source_partition"]) == (case.input, n % 2)
        assert (each["source_offset"], each["source_timestamp_ms"]) == (n // 2, BEGAN_MS + n)
    code, out, err = command(capsys, *show, "--limit", "3")
    assert code == 0
    assert len(out.splitlines()) == 4
    assert "it is no number" in out
    assert f"3 of {len(BAD)} dead letters" in err


def test_verify_counts_dead_letters_with_the_output(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.run(routed(case.rows(), case))
    topics = ("--input", case.input, "--output", case.output, "--dead-letters", case.dead)
    servers = ("--bootstrap-servers", case.streams.servers)
    code, out, _ = command(capsys, "verify", *topics, *servers, "--by", "key")
    assert (code, out.splitlines()[-1][:46]) == (
        0,
        "exactly once: 100 in, 90 out, 10 dead letters,",
    )


def test_a_replay_writes_each_dead_letter_once(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = case.streams
    case.run(routed(case.rows(includeHeaders=True), case))
    code, _, err = replayed(case, capsys)
    assert code == 1
    assert "--from-beginning" in err
    assert replayed(case, capsys, "--from-beginning")[:2] == (
        0,
        "10 dead letters were replayed\n",
    )
    assert replayed(case, capsys)[:2] == (0, "0 dead letters were replayed\n")
    assert replayed(case, capsys, "--from-beginning")[:2] == (
        0,
        "0 dead letters were replayed\n",
    )
    records = [*read_committed(streams.servers, case.input)]
    assert len(records) == RECORDS + len(BAD)
    before = {r.key: r for r in records if r.offset < RECORDS // 2}
    for record in (r for r in records if r.offset >= RECORDS // 2):
        former = before[record.key]
        assert (record.partition, record.value) == (former.partition, former.value)
    # What was replayed fails again, with the headers of its record and no former ones.
    case.run(routed(case.rows(includeHeaders=True), case._replace(dead=streams.topic())))
    # Another group has a place of its own, and one topic for all.
    elsewhere = streams.topic()
    more = ("--from-beginning", "--to", elsewhere, "--group", streams.group())
    assert replayed(case, capsys, *more)[0] == 0
    assert streams.values(elsewhere) == sorted(BAD)
    # A reason that all of them have.
    (reason,) = {
        each.reason for each in replay.newest(Connection(streams.servers, {}), case.dead, 100)[0]
    }
    few = ("--from-beginning", "--to", elsewhere, "--group", streams.group())
    assert replayed(case, capsys, *few, "--skip-reason", reason[1:])[:2] == (
        0,
        "0 dead letters were replayed\n",
    )


def test_a_replay_that_cannot_know_where_a_record_goes_is_refused(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = case.streams
    streams.send(case.dead, 1)
    code, _, err = replayed(case, capsys, "--from-beginning")
    assert code == 1
    assert "has no headers of a dead letter" in err
    code, _, err = replayed(case, capsys, "--from-beginning", "--to", case.dead)
    assert code == 1
    assert "the topic of the dead letters itself" in err
    code, _, err = replayed(case, capsys, "--from-beginning", "--to", "not-there")
    assert code == 1
    assert "there is no topic not-there" in err
    assert replayed(case, capsys, "--from-beginning", "--to", case.output)[0] == 0
    assert streams.values(case.output) == ["1"]


def test_dead_letters_that_only_together_are_too_large_are_replayed(
    streams: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client packs several into one batch."""
    dead, target, count = streams.topic(partitions=1), f"small-{streams.group()}", 20
    streams.create(target, 1, {"max.message.bytes": "10000"})
    values = [f"{n:02}{'x' * 3_000}" for n in range(count)]
    streams.send_values(dead, *values)
    servers = ("--bootstrap-servers", streams.servers)
    replay = ("dead-letters", "replay", dead, "--to", target, "--from-beginning", *servers)
    assert command(capsys, *replay)[:2] == (0, f"{count} dead letters were replayed\n")
    assert streams.values(target) == values


@pytest.mark.slow
def test_brokers_may_allow_short_transactions_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dead-letters replay` says what to set, and `txn abort` needs no time."""
    few = {"transaction.max.timeout.ms": "45000"}
    with LocalCluster(data_dir=tmp_path / "cluster", properties=few) as cluster:
        servers = cluster.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            admin.create_topics([NewTopic("dead", 1, 1), NewTopic("target", 1, 1)])
            admin.wait_for_topics(["dead", "target"])
        id_ = f"eoskafka-{'q' * 22}-0"
        with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
            producer.send("dead", b"a").get(30)
        replay = ("dead-letters", "replay", "dead", "--to", "target", "--from-beginning")
        code, _, err = command(capsys, *replay, "--bootstrap-servers", servers)
        assert code == 1, err
        assert "allow no transaction of 60 s" in err
        shorter = ("-X", "request.timeout.ms=15000")
        code, out, err = command(capsys, *replay, *shorter, "--bootstrap-servers", servers)
        assert (code, out) == (0, "1 dead letters were replayed\n"), err

        with closing(
            KafkaProducer(
                bootstrap_servers=servers, transactional_id=id_, transaction_timeout_ms=40_000
            )
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("target", b"b").get(30)
            code, _, err = command(capsys, "txn", "abort", id_, "--bootstrap-servers", servers)
            assert code == 0, err
        assert [record.value for record in read_committed(servers, "target")] == [b"a"]


def test_a_replay_of_a_topic_that_may_be_a_former_one_writes_nothing(
    case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker alone has named its id, and others name another one."""
    case.run(routed(case.rows(), case))
    with monkeypatch.context() as patch:
        patch.setattr(replay_run, "disagreement_on_ids", lambda *_: "broker 2 names another one")
        code, _, err = replayed(case, capsys, "--from-beginning")
    assert code == 1, err
    assert f"which id the topic {case.dead} has: broker 2 names another one" in err
    assert len([*read_committed(case.streams.servers, case.input)]) == RECORDS
    assert replayed(case, capsys, "--from-beginning")[0] == 0
    assert len([*read_committed(case.streams.servers, case.input)]) == RECORDS + len(BAD)


def test_a_second_replay_fences_one_that_still_runs(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = case.streams
    case.run(routed(case.rows(), case))
    cluster, target = Connection(streams.servers, {}), streams.topic()
    monkeypatch.setattr(replay.records, "_PORTION", 3)
    how: dict[str, Any] = {"group": streams.group(), "to": target, "from_beginning": True}
    counts: list[int] = []

    def meanwhile(count: int) -> None:
        counts.append(count)
        if len(counts) == 2:
            assert replay.replay(cluster, case.dead, **how) == len(BAD) - sum(counts)

    with pytest.raises(FencedError):
        replay.replay(cluster, case.dead, **how, replayed=meanwhile)
    assert streams.values(target) == sorted(BAD)


def test_a_replay_refuses_offsets_that_do_not_say_what_was_replayed(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, target, group = streams.topic(partitions=1, records=10), streams.topic(), streams.group()
    first = TopicPartition(dead, 0)
    cluster = Connection(streams.servers, {})

    def run(**more: Any) -> int:
        return replay.replay(cluster, dead, to=target, group=group, **more)

    def refused(error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            run()

    assert run(from_beginning=True, skip={(0, 3)}) == 9
    streams.send(dead, 10, 11, 12)
    with monkeypatch.context() as patch:
        # What a former coordinator would say, and what a broker would say that is behind.
        patch.setattr(
            replay.run,
            "committed_offsets",
            lambda *_, real=committed_offsets: {
                p: each._replace(offset=5) for p, each in real(*_).items()
            },
        )
        refused(OffsetsError, "former coordinator")
    with monkeypatch.context() as patch:
        patch.setattr(
            replay.records,
            "log_offsets",
            lambda *_, real=log_offsets: dict.fromkeys(real(*_), 4),
        )
        refused(OffsetsError, "may be behind")
    streams.admin.delete_records({first: 12})
    refused(DataLossError, "up to 2 dead letters were deleted")
    assert run(accept_loss=True) == 1
    assert streams.numbers(target) == [0, 1, 2, *range(4, 10), 12]
    group = streams.group()
    with closing(KafkaConsumer(bootstrap_servers=streams.servers, group_id=group)) as consumer:
        consumer.assign([first])
        consumer.commit({first: OffsetAndMetadata(0, "", -1)})
    refused(OffsetsError, "no replay has committed")


KILLED = """
import os, signal, sys
from eoskafka.brokers.connection import Connection
from eoskafka.replay import records, run
records._PORTION = 7
commits = int(sys.argv[5])
def commit(producer, *rest, real=run._commit):
    global commits
    commits -= 1
    if commits == 0:
        # In the middle of a transaction that has records and offsets.
        producer.commit_transaction = lambda: os.kill(os.getpid(), signal.SIGKILL)
    real(producer, *rest)
run._commit = commit
cluster = Connection(sys.argv[1], {})
run.replay(cluster, sys.argv[2], to=sys.argv[3], group=sys.argv[4], from_beginning=True)
"""


def test_a_replay_that_is_killed_continues_without_a_duplicate(streams: Streams) -> None:
    dead, target, group = streams.topic(records=RECORDS), streams.topic(), streams.group()
    for commits in (1, 3, 2, 100):
        arguments = (streams.servers, dead, target, group, str(commits))
        done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
        assert done.returncode == (0 if commits == 100 else -signal.SIGKILL)
    assert streams.numbers(target) == [*range(RECORDS)]
