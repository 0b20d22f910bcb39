"""The soak's verdict on what grows."""

from __future__ import annotations

from dataclasses import asdict, replace

from faults.held import Held
from faults.soak import MOST, Stretch, growth

HELD = Held(heap_mib=100.0, metaspace_mib=50.0, resident_mib=500.0, threads=60, files=200)
STRETCH = Stretch(
    segment=1,
    epochs=1_000,
    start_s=5.0,
    epoch_ms=200.0,
    driver=HELD,
    broker=HELD,
    ids=6,
    producers=40,
    decisions_bytes=1_000_000,
)


def test_what_stays_within_its_bounds_has_not_grown() -> None:
    last = replace(STRETCH, ids=STRETCH.ids + int(MOST["ids"]), epoch_ms=900.0)
    assert growth([STRETCH] * 4 + [last] * 2) == []


def test_what_is_greater_in_the_last_third_is_named() -> None:
    heap = replace(HELD, heap_mib=HELD.heap_mib + MOST["broker_heap_mib"] + 1)
    last = replace(STRETCH, broker=heap, producers=1_000)
    assert growth([STRETCH] * 4 + [last] * 2) == [
        "broker_heap_mib: 100.0, then 111.0",
        "producers: 40.0, then 1,000.0",
    ]
    assert growth([STRETCH] * 8 + [last]) == []


def test_a_stretch_is_kept_as_json() -> None:
    assert Stretch.of_json(asdict(STRETCH)) == STRETCH
