"""Ctrl-C ends the demo, whatever the code that it hits makes of it."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from eoskafka.demo.interruption import Interruption


def swallow(number: int) -> None:
    """As kafka-python's network code does."""
    with contextlib.suppress(BaseException):
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_was_swallowed_is_raised_at_the_next_check(number: int) -> None:
    with Interruption() as interruption:
        interruption.check()
        swallow(number)
        with pytest.raises(KeyboardInterrupt):
            interruption.check()


def test_an_interrupt_that_became_another_error_is_an_interrupt() -> None:
    def lose_connection() -> None:
        with Interruption():
            swallow(signal.SIGINT)
            raise OSError("connection lost")

    with pytest.raises(KeyboardInterrupt):
        lose_connection()


def test_without_an_interrupt_an_error_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="connection lost"), Interruption():
        raise OSError("connection lost")


def test_the_handlers_before_are_restored() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
