"""What the soak in real-time mode calls growth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.held import Held
from faults.real_time_soak import WARM_WINDOWS, Window, growth

HELD = Held(heap_mib=60.0, metaspace_mib=100.0, resident_mib=500.0, threads=100, files=300)
STEADY = Window(p50_ms=60.0, p99_ms=110.0, greatest_ms=400.0, held={"driver": HELD, "broker": HELD})
COLD = Window(
    p50_ms=900.0,
    p99_ms=9_000.0,
    greatest_ms=20_000.0,
    held={"driver": replace(HELD, heap_mib=20.0), "broker": HELD},
)


def soak(*last: Window) -> list[Window]:
    """Ten windows after the warm-up, the last three of them given."""
    return [COLD] * WARM_WINDOWS + [STEADY] * 7 + list(last)


def with_driver(**changed: Any) -> Window:
    return replace(STEADY, held={"driver": replace(HELD, **changed), "broker": HELD})


def test_a_steady_query_has_not_grown_and_its_warm_up_does_not_count() -> None:
    assert growth(soak(STEADY, STEADY, STEADY)) == []
    # One window that differs is no trend.
    assert growth(soak(STEADY, replace(with_driver(heap_mib=900.0), p99_ms=9e3), STEADY)) == []


@pytest.mark.parametrize(
    ("window", "found"),
    [
        (with_driver(heap_mib=65.5), "driver, heap_mib: 60.0, then 65.5"),
        (with_driver(metaspace_mib=102.5), "driver, metaspace_mib: 100.0, then 102.5"),
        (with_driver(resident_mib=521.0), "driver, resident_mib: 500.0, then 521.0"),
        (with_driver(threads=105), "driver, threads: 100.0, then 105.0"),
        (with_driver(files=309), "driver, files: 300.0, then 309.0"),
        (replace(STEADY, p50_ms=76.0), "p50, ms: 60.0, then 76.0"),
        (replace(STEADY, p99_ms=138.0), "p99, ms: 110.0, then 138.0"),
    ],
)
def test_what_grows_is_named(window: Window, found: str) -> None:
    assert growth(soak(window, window, window)) == [found]


def test_what_differs_by_less_has_not_grown() -> None:
    held = Held(heap_mib=65.0, metaspace_mib=102.0, resident_mib=520.0, threads=104, files=308)
    window = Window(p50_ms=75.0, p99_ms=137.0, greatest_ms=9e3, held={"driver": held})
    assert growth([replace(STEADY, held={"driver": HELD})] * 9 + [window] * 3) == []


def test_a_broker_may_open_files() -> None:
    window = replace(STEADY, held={"driver": HELD, "broker": replace(HELD, files=900)})
    assert growth(soak(window, window, window)) == []
