"""Checkpoints that users have on disk, of former connectors and each Spark version, start here.

Each file has a checkpoint and its broker's data (see `tests/corpus/stored.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus.outcome import FINISHED
from corpus.stage import Runtime, Stage
from corpus.stored import Stored, stored
from eoskafka._jar import ensure_built

# Of task scope. `make test` has them on this Spark version only; .ci/run tests others, too.
QUICK = {"stored/task"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=cell.name, marks=[] if cell.name in QUICK else [pytest.mark.slow])
        for cell in stored()
    ],
)
def test_a_checkpoint_that_users_have_goes_on(cell: Stored, stage: Stage, tmp_path: Path) -> None:
    runtime = Runtime(ensure_built())
    outcome = cell.run(stage, runtime, runtime, tmp_path)
    assert outcome["end"] == FINISHED
    assert outcome["outputs"] == {"1": outcome["inputs"]}
    assert not any(outcome[fault] for fault in ("lost", "duplicated", "altered", "unexpected"))
    assert (outcome["group"], outcome["open"]) == ("at the ends", 0)
