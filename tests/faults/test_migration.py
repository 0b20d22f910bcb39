"""The way to eoskafka and back, under load (`make migration`), in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.migration import PHASES, RATE, is_right, migrate

SECONDS = 5


@pytest.mark.slow
def test_a_job_that_moves_to_and_fro_loses_nothing_and_doubles_what_was_told(
    tmp_path: Path,
) -> None:
    phases, verdict = migrate(tmp_path, SECONDS)
    print(phases, verdict)
    assert len(phases) == len(PHASES)
    assert is_right(phases, verdict)
    # Each phase has had its part.
    assert all(count > 0 for count in verdict.written)
    assert verdict.sent > SECONDS * len(PHASES) * RATE / 2
    # Or nothing was put to the test: some end has cut a batch of the built-in connector off.
    assert any(phase.told for phase in phases)
