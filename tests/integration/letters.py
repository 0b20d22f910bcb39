"""`Case`: topics whose records are partly wrong, and what has become of them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, NamedTuple

from eoskafka import with_dead_letters
from eoskafka.audit import read_committed
from eoskafka.dead_letters import PREFIX
from harness import until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from streams import Streams

RECORDS = 100
# Retention would delete older records.
BEGAN_MS = time.time_ns() // 1_000_000
# Every tenth value is no number.
BAD = [f"x{n}" for n in range(0, RECORDS, 10)]
GOOD = sorted(str(2 * n) for n in range(RECORDS) if n % 10)


class Letter(NamedTuple):
    """A dead letter, with its own headers by their short names."""

    key: bytes | None
    value: bytes | None
    headers: dict[str, str]
    others: list[tuple[str, bytes | None]]


class Case(NamedTuple):
    """Topics of one test: input with bad records, output and dead letters."""

    streams: Streams
    input: str
    output: str
    dead: str

    @classmethod
    def of(cls, streams: Streams) -> Case:
        """With its records written."""
        case = cls(streams, streams.topic(), streams.topic(), streams.topic())
        with closing(KafkaProducer(bootstrap_servers=streams.servers)) as producer:
            for n in range(RECORDS):
                value = str(n) if n % 10 else f"x{n}"
                producer.send(
                    case.input,
                    key=f"k{n}".encode(),
                    value=value.encode(),
                    headers=[("trace", str(n).encode()), (f"{PREFIX}reason", b"a former one")],
                    partition=n % 2,
                    timestamp_ms=BEGAN_MS + n,
                )
        return case

    def rows(self, **options: Any) -> DataFrame:
        return self.streams.source(self.input, options)

    def run(self, rows: DataFrame, **sink: Any) -> str:
        """Write everything; the transaction scope."""
        query = self.streams.run(self.streams.sink(rows, None, options=sink))
        (scope,) = {p["sink"]["metrics"]["transactionScope"] for p in query.recentProgress}
        return str(scope)

    def letters(self) -> list[Letter]:
        """All committed dead letters, in the order of their values."""
        wanted = [*read_committed(self.streams.servers, self.dead)]
        found: list[Letter] = []
        with closing(
            KafkaConsumer(bootstrap_servers=self.streams.servers, isolation_level="read_committed")
        ) as consumer:
            partitions = [TopicPartition(self.dead, p) for p in range(2)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)

            def are_there() -> bool:
                for records in consumer.poll(500).values():
                    for r in records:
                        own = {
                            k.removeprefix(PREFIX): (v or b"").decode()
                            for k, v in r.headers
                            if k.startswith(PREFIX)
                        }
                        others = [(k, v) for k, v in r.headers if not k.startswith(PREFIX)]
                        found.append(Letter(r.key, r.value, own, others))
                return len(found) >= len(wanted)

            until(are_there, "the dead letters", 20)
        return sorted(found, key=lambda letter: letter.value or b"")

    def assert_once(self) -> None:
        """Each record once in one of the two topics; a dead letter as the source has it."""
        assert self.streams.values(self.output) == GOOD
        letters = self.letters()
        assert [(letter.value or b"").decode() for letter in letters] == sorted(BAD)
        there = {
            (r.partition, r.offset): (r.key, r.value)
            for r in read_committed(self.streams.servers, self.input)
        }
        for letter in letters:
            assert letter.headers["topic"] == self.input
            place = int(letter.headers["partition"]), int(letter.headers["offset"])
            assert there[place] == (letter.key, letter.value)


def parsed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("number", sql.expr("try_cast(cast(value as string) as int)"))


def routed(rows: DataFrame, case: Case, **more: Any) -> DataFrame:
    """Twice each number; what is no number is a dead letter."""
    return with_dead_letters(
        parsed(rows),
        error=sql.when(sql.col("number").isNull(), "it is no number"),
        value=(sql.col("number") * 2).cast("string"),
        topic=case.output,
        dead_letter_topic=case.dead,
        **more,
    )
