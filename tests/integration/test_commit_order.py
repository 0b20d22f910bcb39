"""A commit takes along what was sent before it, whatever the client's sender thread is doing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from harness import compile_to_jar
from harness.javac import class_path
from streams import Streams


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(0, id="the first record"),
        pytest.param(1, id="a later record", marks=pytest.mark.slow),
    ],
)
def test_a_record_that_the_sender_has_not_seen_is_part_of_the_commit(
    streams: Streams, tmp_path: Path, before: int
) -> None:
    topic = streams.topic(partitions=1)
    path = os.pathsep.join([class_path(), str(compile_to_jar(tmp_path))])
    program = "testing.CommitBesideTheSender"
    done = subprocess.run(
        ["java", "-cp", path, program, streams.servers, topic, str(before)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert streams.numbers(topic) == list(range(before + 1))
