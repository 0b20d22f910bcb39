"""Every anomaly is found in a history that was made to have it, and in no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from faults.history import Anomaly, History, Observation, Output, Stable, check

INPUTS = [(b"a", b"a1"), (b"b", b"b1"), (b"a", b"a2"), (b"b", b"b2")]
FINAL = [
    Output(0, 0, b"a", b"a1"),
    Output(0, 2, b"a", b"a2"),  # offset 1 is a transaction's marker
    Output(1, 0, b"b", b"b1"),
    Output(1, 1, b"b", b"b2"),
]
SEEN: list[Output | Stable] = [
    FINAL[0],
    FINAL[2],
    Stable(0, 2),
    FINAL[3],
    FINAL[1],
    Stable(0, 4),
    Stable(1, 3),
]
PLACES = {b"a1": (0, 0), b"b1": (0, 1), b"a2": (0, 2), b"b2": (1, 0)}
# The reader's first two records are of a transaction that had input 0 to 1.
OBSERVED = [Observation((0,), {}), Observation((3,), {0: 2}), Observation((7,), {0: 3, 1: 1})]
GOOD = History(INPUTS, readers={"r": SEEN}, final=FINAL, places=PLACES, observations=OBSERVED)


def seen(*events: Output | Stable) -> History:
    """The good history, but the reader saw this."""
    return replace(GOOD, readers={"r": events}, observations=[])


def observed(seen: int, offsets: dict[int, int]) -> History:
    """The good history, but the group had these offsets when the reader had noted so much."""
    return replace(GOOD, observations=[Observation((seen,), offsets)])


def final(*records: Output) -> History:
    """The good history, but this is there at the end; nobody looked before."""
    return replace(GOOD, readers={}, final=records)


BAD: dict[str, tuple[Anomaly, Callable[[], History]]] = {
    "an input without an output": (Anomaly.LOST_WRITE, lambda: final(*FINAL[:3])),
    "an output twice": (Anomaly.DUPLICATE, lambda: final(*FINAL, Output(1, 3, b"b", b"b2"))),
    "an output of an input that did not count yet, twice": (
        Anomaly.DUPLICATE,
        lambda: replace(
            final(*FINAL, Output(0, 4, b"a", b"a3"), Output(0, 5, b"a", b"a3")),
            pending=[(b"a", b"a3")],
        ),
    ),
    "an output of nothing": (Anomaly.UNEXPECTED, lambda: final(*FINAL, Output(0, 4, b"a", b"x"))),
    "a null value": (Anomaly.UNEXPECTED, lambda: final(*FINAL, Output(0, 4, b"a", None))),
    "a record that vanished": (
        Anomaly.ABORTED_READ,
        lambda: seen(FINAL[0], Output(0, 1, b"a", b"a2"), FINAL[1]),
    ),
    "a record that was passed over": (
        Anomaly.UNSEEN,
        lambda: replace(
            GOOD,
            pending=[(b"a", b"a3")],
            readers={"r": [FINAL[0], Output(0, 3, b"a", b"a3")]},
            final=[*FINAL, Output(0, 3, b"a", b"a3")],
        ),
    ),
    "a record above the stable offset": (
        Anomaly.PRECOMMITTED_READ,
        lambda: seen(FINAL[0], FINAL[1], Stable(0, 2)),
    ),
    "a reader that went back": (
        Anomaly.NON_MONOTONIC,
        lambda: seen(FINAL[2], FINAL[3], FINAL[2]),
    ),
    "outputs of a key out of order": (
        Anomaly.NON_MONOTONIC,
        lambda: final(Output(0, 0, b"a", b"a2"), Output(0, 2, b"a", b"a1"), *FINAL[2:]),
    ),
    "two records at one offset": (
        Anomaly.INCONSISTENT_OFFSETS,
        lambda: seen(Output(0, 0, b"a", b"a2")),
    ),
    "an output whose offset the group has not": (
        Anomaly.UNCOVERED,
        lambda: observed(2, {0: 1}),
    ),
    "an output of a partition that the group has no offset of": (
        Anomaly.UNCOVERED,
        lambda: observed(7, {0: 3}),
    ),
}


def test_a_good_history_has_no_anomaly() -> None:
    assert check(GOOD) == []


def test_a_reader_that_came_late_or_is_behind_has_missed_nothing() -> None:
    assert check(seen(FINAL[1], FINAL[2])) == []


def test_an_input_that_did_not_count_yet_may_have_come_out_or_not() -> None:
    out = [*FINAL, Output(0, 4, b"a", b"a3")]
    assert check(replace(GOOD, pending=[(b"a", b"a3")])) == []
    assert check(replace(GOOD, pending=[(b"a", b"a3")], final=out)) == []


def test_outputs_may_come_in_any_order_if_none_is_wanted() -> None:
    mixed = final(Output(0, 0, b"a", b"a2"), Output(0, 2, b"a", b"a1"), *FINAL[2:])
    assert check(replace(mixed, in_order=False)) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_called_what_it_is(name: str) -> None:
    anomaly, make = BAD[name]
    assert {finding.anomaly for finding in check(make())} == {anomaly}


def test_every_anomaly_has_a_bad_history() -> None:
    assert {anomaly for anomaly, _ in BAD.values()} == set(Anomaly)
