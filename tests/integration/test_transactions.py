"""`eoskafka txn`: open transactions, whom they hold up, and ending one without losing a record."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import eoskafka
import pytest
from eoskafka import transactions
from eoskafka.brokers import transactions as listed
from eoskafka.brokers.topics import log_offsets
from eoskafka.errors import TransactionError
from eoskafka.transactions import Kind, Transaction, blocking, decided, listing
from harness import Flow, Point, StartApplication, until
from kafka import KafkaProducer, TopicPartition
from pyspark.sql.streaming import StreamingQuery
from streams import LARGE, QUERY_S, Streams, command, held

RECORDS = 40
STATELESS = {"transform": "repartitioned"}


def held_query(streams: Streams, output: str, rest_ms: int = 3_000, **sink: str) -> StreamingQuery:
    """A query whose task rests at its second record, with its transaction open."""
    topic = streams.topic(partitions=1)
    streams.send_values(topic, *(f"{n}{LARGE}" for n in range(RECORDS)))
    prefix = {"transactionalIdPrefix": f"x-{output}", **sink}
    rows = held(streams.source(topic), topic, at=1, rest_ms=rest_ms)
    return streams.start_held(streams.sink(rows, output, options=prefix), topic)


def opened(streams: Streams, output: str) -> Transaction:
    """The one open transaction of that query."""
    found: list[Transaction] = []

    def one() -> bool:
        found[:] = transactions.transactions(streams.servers, f"x-{output}")
        return len(found) == 1

    until(one, "an open transaction", QUERY_S)
    return found[0]


def test_a_transaction_of_another_application(
    streams: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = streams.topic(partitions=1)
    where = ("--bootstrap-servers", streams.servers)
    with streams.open_transaction(topic, 1, 2, 3):
        ours = transactions.transactions(streams.servers)
        (found,) = (
            each
            for each in transactions.transactions(streams.servers, everything=True)
            if (topic, 0) in each.partitions
        )
        assert found.id not in {each.id for each in ours}
        assert (found.kind, found.owner, found.state) == (Kind.OTHER, "", "Ongoing")
        assert found.started_ms is not None
        _, held_up = transactions.describe(streams.servers, found.id)
        assert [(b.topic, b.partition, b.stable, b.end) for b in held_up] == [(topic, 0, 0, 3)]
        with pytest.raises(TransactionError, match="not one of eoskafka's"):
            transactions.abort(streams.servers, found.id)

        code, out, _ = command(capsys, "txn", "describe", found.id, *where)
        assert code == 0
        assert f"read_committed readers of {topic}-0 wait at 0 of 3" in out
        code, out, _ = command(capsys, "txn", "list", "--all", *where)
        assert (code, found.id in out) == (0, True)
        code, out, _ = command(
            capsys, "txn", "find-hanging", "--topics", topic, "--format", "json", *where
        )
        (blocked,) = json.loads(out)["blocked"]
        assert code == 0
        assert (blocked["transactional_id"], blocked["is_hanging"]) == (found.id, False)
        code, _, err = command(capsys, "txn", "abort", found.id, *where)
        assert (code, "not one of eoskafka's" in err) == (1, True)
    assert transactions.blocked(streams.servers, [topic]) == ()
    code, _, err = command(capsys, "txn", "describe", "nobody", *where)
    assert (code, "never used there" in err) == (1, True)


@pytest.mark.parametrize("former", ["of the transaction", "of others"])
def test_a_transaction_that_a_former_coordinator_does_not_know_is_not_said_to_hang(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, former: str
) -> None:
    """A broker that is cut off answers from its memory, and does not list what has begun since."""
    topic = streams.topic(partitions=1)
    real = listing.described

    def from_memory(*arguments: Any) -> Transaction | None:
        found = real(*arguments)
        return found and replace(found, state="CompleteCommit")

    with streams.open_transaction(topic, 1):
        monkeypatch.setattr(blocking, "described", from_memory)
        if former == "of others":
            monkeypatch.setattr(blocking, "OPEN", ())
            (held,) = transactions.blocked(streams.servers, [topic])
            assert held.is_hanging
            monkeypatch.setattr(listed, "former_leader", lambda *_: "broker 2 knows a newer one")
        (held,) = transactions.blocked(streams.servers, [topic])
        assert (held.transactional_id, held.is_hanging, held.is_unknown) == ("", False, True)


def test_short_transactions_do_not_hang(streams: Streams) -> None:
    topic = streams.topic(partitions=1)
    ends = time.monotonic() + 5
    producer = KafkaProducer(bootstrap_servers=streams.servers, transactional_id=f"short-{topic}")

    def work() -> None:
        producer.init_transactions()
        while time.monotonic() < ends:
            producer.begin_transaction()
            producer.send(topic, b"x").get(10)
            time.sleep(0.02)
            producer.commit_transaction()

    with closing(producer), ThreadPoolExecutor() as pool:
        done = pool.submit(work)
        seen = 0
        while not done.done():
            found = transactions.blocked(streams.servers, [topic])
            assert not any(each.is_hanging for each in found)
            seen += len(found)
        done.result()
    assert seen > 0


def test_a_task_whose_transaction_is_ended_is_done_again(streams: Streams) -> None:
    output = streams.topic()
    query = held_query(streams, output)
    found = opened(streams, output)
    assert found.kind is Kind.TASK
    ended = transactions.abort(streams.servers, found.id, f"x-{output}")
    assert ended.producer_id == found.producer_id
    assert query.awaitTermination(QUERY_S)
    assert streams.numbers(output) == [*range(RECORDS)]


@pytest.mark.slow
def test_a_writer_is_ended_only_when_its_query_cannot_decide_any_more(streams: Streams) -> None:
    output = streams.topic()
    # Its own one: in the common one other tests have compressed records.
    decisions = f"{output}-decisions"
    query = held_query(streams, output, 12_000, transactionScope="epoch", decisionTopic=decisions)
    found = opened(streams, output)
    assert found.kind is Kind.WRITER
    with pytest.raises(TransactionError, match="repeat this with --fence"):
        transactions.abort(streams.servers, found.id, f"x-{output}")
    # Whoever wrote it, in whichever partition: it may be a decision that this version cannot read.
    key = f"decision:{found.owner}:0".encode()
    with closing(KafkaProducer(bootstrap_servers=streams.servers)) as producer:
        newer = json.dumps({"version": 2, "outputs": []}).encode()
        producer.send(decisions, key=key, value=newer, partition=0).get(30)
        with pytest.raises(TransactionError, match="none that a driver of this version writes"):
            transactions.abort(streams.servers, found.id, f"x-{output}", decisions, fence=True)
        producer.send(decisions, key=key, value=None, partition=0).get(30)
    transactions.abort(streams.servers, found.id, f"x-{output}", decisions, fence=True)
    with pytest.raises(eoskafka.FencedError, match="EOSKAFKA_DECISION_FENCED"):
        query.awaitTermination(QUERY_S)
    assert streams.numbers(output) == []
    assert transactions.transactions(streams.servers, f"x-{output}") == ()


def former_ends(*given: Any) -> dict[TopicPartition, int]:
    """The ends before a query's first decision: a record of its start, the run, and two markers."""
    return {partition: min(end, 4) for partition, end in log_offsets(*given).items()}


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before-decision", "after-decision"])
def test_a_writer_whose_epoch_is_decided_is_not_ended(
    start_application: StartApplication,
    flow: Flow,
    point: Point,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    decisions = f"{flow.name}-decisions"
    how: dict[str, Any] = {**STATELESS, "sink": {"decisionTopic": decisions}}
    flow.reach(first, point, "kill", **how)
    first.kill()
    prefix = f"eoskafka-{flow.name}"
    writers = transactions.transactions(flow.servers, prefix)
    assert {each.kind for each in writers} == {Kind.WRITER}
    for each in writers:
        with pytest.raises(TransactionError, match="has no entry of its query"):
            transactions.abort(flow.servers, each.id, prefix, flow.input, fence=True)
        if point == "after-decision":
            with pytest.raises(TransactionError, match="its epoch is decided"):
                transactions.abort(flow.servers, each.id, prefix, decisions, fence=True)
        else:
            transactions.abort(flow.servers, each.id, prefix, decisions, fence=True)
    if point == "after-decision":
        # A deposed leader names an end between the entry of the run and the decision.
        monkeypatch.setattr(decided, "log_offsets", former_ends)
        with pytest.raises(TransactionError, match=r"its epoch is decided.*was fenced"):
            transactions.abort(flow.servers, writers[0].id, prefix, decisions, fence=True)
    left = transactions.transactions(flow.servers, prefix)
    assert {each.id for each in left} == (
        {each.id for each in writers} if point == "after-decision" else set()
    )
    flow.start(start_application("local[2]"), **how).wait_done()
    flow.assert_exactly_once()
