"""What the tests of the scope make plans of, and what must have become of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.functions import col
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from streams import Streams, kv

INPUT = 20
TASK_SCOPE = {"transactionScope": "task"}
KV = "key binary, value binary"


class Inputs(NamedTuple):
    """What a plan may be made of: two eoskafka sources, and two static tables of 10 of the keys."""

    streams: Streams
    topic: str
    group: str
    source: DataFrame
    other: DataFrame
    table: DataFrame
    parquet: DataFrame


Plan = Callable[[Inputs], DataFrame]


def counts(rows: DataFrame) -> DataFrame:
    """Records by key: an operator with state."""
    return rows.groupBy("key").count().select("key", col("count").cast("string").alias("value"))


def self_join(rows: DataFrame) -> DataFrame:
    """The rows, each joined with itself."""
    return kv(rows.join(rows.select("key"), "key"))


def doubled(rows: DataFrame) -> DataFrame:
    """Each row twice, made in Python."""

    def double(batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield batch
            yield batch

    return rows.mapInPandas(double, KV)


def remembered(rows: DataFrame) -> DataFrame:
    """The rows, while Python state by key counts them."""

    def remember(
        key: tuple[bytes], groups: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        for group in groups:
            state.update((len(group),))
            yield group

    timeout = GroupStateTimeout.NoTimeout
    return rows.groupBy("key").applyInPandasWithState(remember, KV, "n int", "append", timeout)


def union_of_coalesced(inputs: Inputs) -> DataFrame:
    """Two sources with one task each."""
    return kv(inputs.source).coalesce(1).union(kv(inputs.other).coalesce(1))


def in_python(rows: DataFrame) -> DataFrame:
    """An operator that Spark keeps above a source without news."""
    return rows.mapInPandas(lambda frames: frames, KV)


def assert_untouched(inputs: Inputs, output: str) -> None:
    """Nothing was written and no offset counts as done."""
    assert inputs.streams.values(output) == []
    assert set(inputs.streams.offsets(inputs.group, inputs.topic).values()) <= {0}


def assert_all_dropped(inputs: Inputs, output: str) -> None:
    """Nothing was written, and all offsets count as done."""
    assert inputs.streams.numbers(output) == []
    assert inputs.streams.offsets(inputs.group, inputs.topic) == inputs.streams.ends(inputs.topic)
