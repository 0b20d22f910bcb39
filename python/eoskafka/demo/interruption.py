"""`Interruption`: Ctrl-C and SIGTERM, also where a library takes them for something else."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interruption:
    """While it is entered, SIGINT and SIGTERM raise KeyboardInterrupt, and are remembered.

    kafka-python takes every exception in its network code for a broken connection, so a
    KeyboardInterrupt may be lost in there or come out as a KafkaError. `check` raises it again, and
    so does the block's end, whatever else ended it.
    """

    def __init__(self) -> None:
        self._asked = False
        self._former: dict[int, object] = {}

    def check(self) -> None:
        """Raise KeyboardInterrupt if one was asked for."""
        if self._asked:
            raise KeyboardInterrupt

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # signals are for it alone
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if error is not None and not isinstance(error, KeyboardInterrupt):
            self.check()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        raise KeyboardInterrupt
