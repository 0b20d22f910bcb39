"""Waiting on a condition with a deadline, on a transaction's end, and what is done meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from eoskafka.brokers.transactions import open_ids
from kafka.admin import KafkaAdminClient

T = TypeVar("T")

_POLL_S = 0.05
_MARKERS_S = 30


def until(
    condition: Callable[[], T | None], what: str, timeout_s: float, also: Callable[[], str] = str
) -> T:
    """Wait until `condition` is true and return its value.

    Args:
        condition: called again and again; anything false means "not yet".
        what: what is waited for, for the error.
        timeout_s: seconds.
        also: what else to say if it never comes.

    Raises:
        TimeoutError: it did not come in time.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s. {also()}")
        time.sleep(_POLL_S)
    return value


@contextmanager
def again_and_again(do: Callable[[], object], every_s: float) -> Iterator[None]:
    """Call `do` at this interval, in another thread, inside the block."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            do()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def until_ended(servers: str, transactional_id: str) -> None:
    """Wait until all that a transaction has touched is marked as committed or aborted.

    Its producer has the answer before that.
    """
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        until(
            lambda: transactional_id not in open_ids(admin),
            f"the end of {transactional_id}",
            _MARKERS_S,
        )
