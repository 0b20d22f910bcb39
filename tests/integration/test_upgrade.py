"""Moving to this version: brokers that are too old, and `eoskafka upgrade check`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka.cli import app
from eoskafka.upgrade import Report, Verdict, check
from harness import until
from harness.old_kafka import old_broker
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from pyspark.sql import SparkSession
from streams import Streams, kv

FOREIGN = "F" * 22


def checked(streams: Streams, group: str) -> Report:
    return check(streams.servers, group)


@pytest.fixture
def old(shared_spark: SparkSession, tmp_path: Path, keep_logs: list[Path]) -> Iterator[Streams]:
    """Streams on a broker of Kafka 2.4."""
    (tmp_path / "old").mkdir()
    keep_logs += [tmp_path / "old" / "server.log"]
    with (
        old_broker(tmp_path / "old") as servers,
        closing(Streams(shared_spark, servers, tmp_path)) as streams,
    ):
        yield streams


@pytest.mark.slow
def test_brokers_before_2_5_are_refused_with_the_reason(
    old: Streams, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, output, group = old.topic(records=20), old.topic(), old.group()
    rows = kv(old.source(topic, {"kafka.group.id": group}))
    error = old.failure(old.sink(rows, output))
    assert "[EOSKAFKA_BROKER_TOO_OLD]" in error
    assert "is older than Kafka 2.5" in error
    batch = old.spark.sql("select 'a' value")
    with pytest.raises(Exception, match="EOSKAFKA_BROKER_TOO_OLD"):
        batch.write.format("eoskafka").options(
            **{"kafka.bootstrap.servers": old.servers, "topic": output}
        ).save()
    assert old.values(output) == []

    with pytest.raises(SystemExit) as ended:
        app.run(["upgrade", "check", "--group", group, "--bootstrap-servers", old.servers])
    assert ended.value.code == 1
    assert "Upgrade all brokers to Kafka 3.0 or newer" in capsys.readouterr().out


def test_a_group_without_offsets_is_free(streams: Streams) -> None:
    # With its topic, as other groups have open transactions.
    found = check(streams.servers, streams.group(), [streams.topic()])
    assert found.verdict is Verdict.FREE
    assert all(broker.release and not broker.lacks for broker in found.brokers)


def test_a_job_of_this_version_can_move(streams: Streams) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    streams.copy(topic, output, options={"kafka.group.id": group})
    found = checked(streams, group)
    assert (found.verdict, found.ownership) == (Verdict.READY, "exclusive")
    assert found.partitions == {"task": 2}
    assert not found.open_transactions


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_running_shared_job_can_hand_over(streams: Streams, protocol: str) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    shared = {"ownership": "shared", "kafka.group.protocol": protocol}
    rows = kv(streams.source(topic, {"kafka.group.id": group, **shared}))
    streams.start(streams.sink(rows, output).trigger(processingTime="100 milliseconds"))
    until(lambda: streams.numbers(output) == [*range(20)], "the first batch", 60)
    found = checked(streams, group)
    assert (found.verdict, found.ownership) == (Verdict.READY, "shared")
    assert "handover=true" in found.steps[0]
    (member,) = found.members
    assert ("-shared" if protocol == "classic" else "cannot list") in member


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [("", "none"), ("by hand", "none"), (f"eoskafka:0:t:{FOREIGN}:{FOREIGN}:-:7", "older")],
)
def test_a_job_of_another_kind_moves_in_two_steps(
    streams: Streams, metadata: str, kind: str
) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    streams.set_offsets(group, topic, {0: (3, metadata), 1: (4, metadata)})
    found = checked(streams, group)
    assert found.verdict is Verdict.OTHER
    assert found.partitions == {kind: 2}
    # The second step, as it says.
    assert found.starting_offsets == f'{{"{topic}":{{"0":3,"1":4}}}}'
    assert found.starting_offsets in found.steps[-1]
    assert "If a query of eoskafka has run with this group" in found.steps[1]
    streams.copy(topic, output, options={"startingOffsets": found.starting_offsets})
    # Even numbers are in partition 0, odd ones in partition 1.
    assert streams.numbers(output) == sorted([*range(6, 20, 2), *range(9, 20, 2)])


@pytest.mark.parametrize(
    ("metadata", "can_adopt"), [("", True), (f"eoskafka:0:t:{FOREIGN}:{FOREIGN}:-:7", False)]
)
def test_an_offset_that_replaces_one_of_the_querys_own_is_no_place_to_start(
    streams: Streams, metadata: str, can_adopt: bool
) -> None:
    topic, group = streams.topic(records=20), streams.group()
    own = f"eoskafka:1:t:{FOREIGN}:{FOREIGN}:-:7"
    streams.set_offsets(group, topic, {0: (3, own), 1: (9, metadata)})
    found = checked(streams, group)
    assert (found.verdict, found.starting_offsets) == (Verdict.OVERWRITTEN, "")
    steps = " ".join(found.steps)
    assert "whose output is missing" in steps
    assert ("--at JSON" in steps) is can_adopt
    assert '"0":3' not in steps


def test_a_job_of_a_newer_version_cannot_move_back(streams: Streams) -> None:
    topic, group = streams.topic(records=20), streams.group()
    streams.set_offsets(group, topic, {0: (3, f"eoskafka:2:t:{FOREIGN}:{FOREIGN}:-:7")})
    assert checked(streams, group).verdict is Verdict.NEWER


def test_a_group_of_several_queries_is_taken_apart_by_topics(streams: Streams) -> None:
    topics, group = [streams.topic(records=20) for _ in range(2)], streams.group()
    for number, topic in enumerate(topics):
        stamp = f"eoskafka:1:t:{str(number) * 22}:{FOREIGN}:-:7"
        streams.set_offsets(group, topic, {0: (3, stamp), 1: (3, stamp)})
    assert checked(streams, group).verdict is Verdict.MIXED
    for topic in topics:
        found = check(streams.servers, group, [topic])
        assert (found.verdict, found.partitions) == (Verdict.READY, {"task": 2})


def test_members_without_offsets_are_named(streams: Streams) -> None:
    topic, group = streams.topic(records=20), streams.group()
    consumer = KafkaConsumer(topic, bootstrap_servers=streams.servers, group_id=group)
    with closing(consumer):
        until(lambda: consumer.poll(500) is not None and consumer.assignment(), "a member", 30)
        found = checked(streams, group)
        assert found.verdict is Verdict.IN_USE
        assert "kafka-python" in found.members[0]
        assert found.members[0] in found.steps[0]


def test_a_group_whose_first_offsets_are_pending_is_in_use(streams: Streams) -> None:
    topic, group = streams.topic(), streams.group()
    name = f"first-{topic}"
    with closing(KafkaProducer(bootstrap_servers=streams.servers, transactional_id=name)) as first:
        first.init_transactions()
        first.begin_transaction()
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1)}
        first.send_offsets_to_transaction(offsets, group)
        found = check(streams.servers, group, [topic])
        assert (found.verdict, found.pending, found.members) == (Verdict.IN_USE, 1, ())
        assert name in found.steps[0]
        found = checked(streams, group)
        assert (found.verdict, found.pending) == (Verdict.IN_USE, 0)
        assert "--topics" in found.steps[0]
        assert name in found.steps[0]
        first.abort_transaction()
    until(lambda: check(streams.servers, group, [topic]).verdict is Verdict.FREE, "its end", 10)


# Java's hash of the one is above 0, of the other below. No other test has groups of these names.
@pytest.mark.parametrize("group", ["open-offsets", "held-offsets"])
def test_an_open_transaction_over_the_groups_offsets_is_named(
    streams: Streams, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = streams.topic(records=20)
    streams.set_offsets(group, topic, {0: (2, ""), 1: (2, "")})
    name = f"open-{topic}"
    producer = KafkaProducer(bootstrap_servers=streams.servers, transactional_id=name)
    with closing(producer):
        producer.init_transactions()
        producer.begin_transaction()
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1)}
        producer.send_offsets_to_transaction(offsets, group)
        found = checked(streams, group)
        assert name in found.open_transactions
        # Offsets that still change are no place to start.
        assert (found.pending, found.starting_offsets, len(found.steps)) == (1, "", 1)
        with monkeypatch.context() as patch:
            patch.setattr("eoskafka.upgrade.open_transactions", lambda *_: ())
            (step,) = checked(streams, group).steps
            assert "Its name is not known" in step
        producer.abort_transaction()
    until(lambda: name not in checked(streams, group).open_transactions, "its end", 10)
    assert checked(streams, group).starting_offsets != ""
