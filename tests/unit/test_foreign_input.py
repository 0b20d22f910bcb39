"""Whatever others have written where eoskafka reads, it is read or refused by name."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from fuzz import corpus, readers
from hypothesis import given, settings
from hypothesis import strategies as st

TRIES = int(os.environ.get("EOSKAFKA_TRIES", "300"))
CORPUS = Path(__file__).with_name("foreign_corpus.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("reader", readers.ALL, ids=lambda reader: reader.__name__)
@settings(max_examples=TRIES, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_any_input_is_read_or_refused_by_name(reader: readers.Reader, random: Random) -> None:
    reader(random)


@pytest.mark.parametrize("reader", ["stamp", "id", "entries", "offsets"])
def test_python_reads_what_the_connector_reads(reader: str) -> None:
    lines = [line for line in CORPUS if line.startswith(f'["{reader}",')]
    assert len(lines) > 50
    assert [line for line in lines if not corpus.agrees(line)] == []
