"""Writes inside `foreachBatch` on an older copy of the checkpoint that the query ran with last."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from foreach import run, save
from harness.functions import Function
from pyspark.sql import DataFrame
from streams import Streams

# Values from here on are written to the second topic, too.
ALARM = 100


def writes(streams: Streams, everything: str, alarms: str) -> Function:
    """The alarms of each batch that has some, and then all of its records."""

    def write(batch: DataFrame, _: int) -> None:
        chosen = batch.where(f"cast(cast(value as string) as int) >= {ALARM}")
        if not chosen.isEmpty():
            save(streams, chosen, alarms, writeId="alarms")
        save(streams, batch, everything, writeId="everything")

    return write


def test_on_an_older_copy_of_the_checkpoint_no_write_goes_on(
    streams: Streams, tmp_path: Path
) -> None:
    """The copy has all of what one of the two writes has decided."""
    source, everything, alarms = streams.topic(), streams.topic(), streams.topic()
    checkpoint, copy, right = streams.checkpoint(), tmp_path / "copy", tmp_path / "right"
    write = writes(streams, everything, alarms)
    streams.send(source, 0, ALARM)
    run(streams, source, checkpoint, write)
    shutil.copytree(checkpoint, copy)
    streams.send(source, 1)
    run(streams, source, checkpoint, write)

    checkpoint.rename(right)
    copy.rename(checkpoint)
    streams.send(source, ALARM + 1)
    with pytest.raises(Exception, match="EOSKAFKA_DECISION_NEWER"):
        run(streams, source, checkpoint, write)
    assert streams.numbers(alarms) == [ALARM]

    shutil.rmtree(checkpoint)
    right.rename(checkpoint)
    run(streams, source, checkpoint, write)
    assert streams.numbers(alarms) == [ALARM, ALARM + 1]
    assert streams.numbers(everything) == [0, 1, ALARM, ALARM + 1]
