"""The proxy does what its name for a fault says, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from faults.proxy import Api, Proxy

TIMEOUT_S = 5.0


class Echo:
    """A broker that answers each request with its body; it counts them."""

    def __init__(self) -> None:
        self.requests = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # or a thread in accept() takes one more
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as incoming:
            while size := incoming.read(4):
                frame = incoming.read(struct.unpack(">i", size)[0])
                self.requests += 1
                reply = frame[4:]  # from the correlation id on
                connection.sendall(struct.pack(">i", len(reply)) + reply)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as echo:
        yield echo


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    proxy = Proxy(echo.port)
    proxy.start()
    with closing(proxy):
        yield proxy


@contextmanager
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT_S) as connection:
        yield connection


def ask(connection: socket.socket, api: Api, correlation: int, body: bytes = b"") -> bytes:
    """A request's reply, from its correlation id on; empty if the connection ended."""
    frame = struct.pack(">hhi", api, 0, correlation) + body
    try:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as incoming:
            size = incoming.read(4)
            return incoming.read(struct.unpack(">i", size)[0]) if size else b""
    except ConnectionError:
        return b""


def reply(correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">i", correlation) + body


def test_without_a_fault_everything_passes(proxy: Proxy) -> None:
    large = b"x" * 3_000_000
    with client(proxy) as connection:
        assert ask(connection, Api.PRODUCE, 1, large) == reply(1, large)
        assert ask(connection, Api.END_TXN, 2) == reply(2)


def test_a_dropped_reply_is_lost_after_its_request_has_arrived(proxy: Proxy, echo: Echo) -> None:
    drop = proxy.drop_reply(Api.END_TXN)
    with client(proxy) as connection:
        assert ask(connection, Api.PRODUCE, 1) == reply(1)
        assert not drop.happened.is_set()
        assert ask(connection, Api.END_TXN, 2) == b""
    assert drop.happened.wait(TIMEOUT_S)
    assert echo.requests == 2
    with client(proxy) as connection:
        assert ask(connection, Api.END_TXN, 3) == reply(3)


def test_as_many_replies_are_dropped_as_were_named(proxy: Proxy) -> None:
    drop = proxy.drop_reply(Api.FETCH, count=2)
    answers = []
    for correlation in range(3):
        with client(proxy) as connection:
            answers.append(ask(connection, Api.FETCH, correlation))
    assert answers == [b"", b"", reply(2)]
    assert drop.happened.is_set()


def test_a_delay_holds_replies_back_until_it_is_mended(proxy: Proxy) -> None:
    proxy.delay(2)
    with client(proxy) as connection:
        began = time.monotonic()
        assert ask(connection, Api.FETCH, 1) == reply(1)
        assert time.monotonic() - began >= 2
        proxy.mend()
        began = time.monotonic()
        assert ask(connection, Api.FETCH, 2) == reply(2)
        assert time.monotonic() - began < 2


def test_a_cut_ends_connections_and_lasts_until_it_is_mended(proxy: Proxy) -> None:
    with client(proxy) as connection:
        assert ask(connection, Api.FETCH, 1) == reply(1)
        proxy.cut()
        assert ask(connection, Api.FETCH, 2) == b""
    with client(proxy) as connection:
        assert ask(connection, Api.FETCH, 3) == b""
    proxy.mend()
    with client(proxy) as connection:
        assert ask(connection, Api.FETCH, 4) == reply(4)


def test_a_mute_proxy_passes_requests_on_and_loses_replies(proxy: Proxy, echo: Echo) -> None:
    proxy.mute()
    with client(proxy) as connection:
        connection.settimeout(1)
        with pytest.raises(TimeoutError):
            ask(connection, Api.FETCH, 1)
        assert (echo.requests, proxy.swallowed) == (1, 1)
        proxy.mend()
        assert ask(connection, Api.FETCH, 2) == b""
    with client(proxy) as connection:
        assert ask(connection, Api.FETCH, 3) == reply(3)


def test_a_broker_that_is_down_is_down_behind_its_proxy(proxy: Proxy, echo: Echo) -> None:
    echo.close()
    with client(proxy) as connection:
        assert ask(connection, Api.FETCH, 1) == b""


def test_a_refused_client_gets_no_answer_and_others_do(proxy: Proxy, echo: Echo) -> None:
    def named(name: str) -> bytes:
        return struct.pack(">h", len(name)) + name.encode()

    proxy.refuse("admin", Api.FETCH)
    with client(proxy) as connection:
        assert ask(connection, Api.FETCH, 1, named("other")) == reply(1, named("other"))
        assert ask(connection, Api.PRODUCE, 2, named("admin-1")) == reply(2, named("admin-1"))
        assert ask(connection, Api.FETCH, 3, named("admin-1")) == b""
    assert echo.requests == 2
    proxy.mend()
    with client(proxy) as connection:
        assert ask(connection, Api.FETCH, 4, named("admin-1")) == reply(4, named("admin-1"))
