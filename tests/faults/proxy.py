"""TCP in front of a broker, which knows Kafka's frames well enough to pick one kind of request.

A broker that advertises its proxy is reached by its clients through it, and by the other brokers
directly, so nothing here disturbs replication.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

_HOST = "127.0.0.1"
_SIZE = struct.Struct(">i")
# Of a request: api key, api version, correlation id. A response starts with the correlation id.
_REQUEST = struct.Struct(">hhi")
_ERROR = struct.Struct(">h")
# An api key, its lowest and its highest version.
_RANGE = struct.Struct(">hhh")
_CONCURRENT_TRANSACTIONS = 51
_CALL_TIMEOUT_S = 10.0
# The largest frame that a broker takes by default.
_LIMIT = 128 * 1024 * 1024


class Api(enum.IntEnum):
    """The requests that faults are aimed at (Kafka's protocol guide, "Api Keys")."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass
class Drop:
    """Replies to lose. The request has had its effect; its sender does not learn that.

    Attributes:
        api: the kind of request.
        left: how many more replies to lose.
        happened: set when the last one was lost.
    """

    api: Api
    left: int = 1
    happened: threading.Event = field(default_factory=threading.Event)


@dataclass
class Hold:
    """A request that is held back while its sender loses the connection: it may still come, late.

    Attributes:
        api: the kind of request.
        request: what is kept; empty before.
        happened: set when there is one.
    """

    api: Api
    request: bytes = b""
    happened: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Stands between a broker's clients and the broker.

    Args:
        target: the broker's port for these clients, on 127.0.0.1.
        make_socket: makes a socket to the broker, if that is in another network namespace.

    Its methods may be called from any thread.

    Attributes:
        requests: how many requests have come, by api key.
        refused: how many of them, AddPartitionsToTxn and AddOffsetsToTxn, the broker told to retry
            because the previous transaction had not ended yet.
        swallowed: how many replies were lost while it was mute.
    """

    def __init__(
        self, target: int, make_socket: Callable[[], socket.socket] = socket.socket
    ) -> None:
        self.target = target
        self._make_socket = make_socket
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._drops: list[Drop] = []
        self._holds: list[Hold] = []
        self._delay_s = 0.0
        self._is_cut = False
        self._is_mute = False
        self._highest: dict[int, int] = {}
        self._refusals: list[tuple[re.Pattern[bytes], Api | None]] = []
        self._replaced: dict[int, tuple[bytes, bytes]] = {}
        self.requests: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()
        self.swallowed = 0

    def start(self) -> None:
        """Listen on a free port."""
        self._thread.start()
        self._call(self._listen())

    def close(self) -> None:
        """Close every connection and stop listening."""
        self._call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)
        self._loop.close()

    def drop_reply(self, api: Api, count: int = 1) -> Drop:
        """Lose the next replies to requests of this kind, each with its connection."""
        drop = Drop(api, count)
        self._loop.call_soon_threadsafe(self._drops.append, drop)
        return drop

    def hold_request(self, api: Api) -> Hold:
        """Keep the next request of this kind, and close its sender's connection."""
        hold = Hold(api)
        self._loop.call_soon_threadsafe(self._holds.append, hold)
        return hold

    def deliver(self, hold: Hold) -> bytes:
        """Send a held request to the broker, and return its reply, which no client gets."""
        return self._call(self._deliver(hold.request))

    def limit(self, api: Api, highest: int = -1) -> None:
        """Hide newer versions of a request from new connections; -1 hides it altogether."""
        self._loop.call_soon_threadsafe(self._highest.__setitem__, api, highest)

    def replace(self, api: Api, what: bytes, by: bytes) -> None:
        """From now on, replace these bytes in replies to this kind of request by as many others."""
        assert len(what) == len(by)
        self._loop.call_soon_threadsafe(self._replaced.__setitem__, api, (what, by))

    def delay(self, seconds: float) -> None:
        """Hold every reply back for so long from now on; 0 ends it."""
        self._loop.call_soon_threadsafe(setattr, self, "_delay_s", seconds)

    def refuse(self, client_id: str, api: Api | None = None) -> None:
        """Close the connections of some clients at their next request, until `mend`.

        Args:
            client_id: a regular expression; the ids of the clients begin with a match.
            api: only at a request of this kind.
        """
        refusal = re.compile(client_id.encode()), api
        self._loop.call_soon_threadsafe(self._refusals.append, refusal)

    def mute(self) -> None:
        """Lose every reply from now on, and leave the connections as they are until `mend`."""
        self._loop.call_soon_threadsafe(setattr, self, "_is_mute", True)

    def cut(self) -> None:
        """Close every connection, and refuse new ones until `mend`."""
        self._call(self._cut())

    def mend(self) -> None:
        """Let clients connect again; forget all other faults.

        Connections that were there while the proxy was mute end: their clients wait for replies.
        """
        self._call(self._mend())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return done.result(_CALL_TIMEOUT_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, _HOST, 0, limit=_LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        assert self._server is not None
        self._server.close()
        self._close_all()

    async def _cut(self) -> None:
        self._is_cut = True
        self._close_all()

    async def _mend(self) -> None:
        self._is_cut = False
        if self._is_mute:
            self._is_mute = False
            self._close_all()
        self._delay_s = 0.0
        self._highest.clear()
        self._refusals.clear()
        self._replaced.clear()
        self._drops.clear()
        self._holds.clear()

    def _close_all(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        if self._is_cut:
            to_client.transport.abort()
            return
        try:
            broker, to_broker = await self._connect()
        except OSError:  # the broker is down, and so are we
            to_client.transport.abort()
            return
        both = {to_client, to_broker}
        self._open |= both
        asked: dict[int, tuple[int, int]] = {}
        ways = [
            asyncio.ensure_future(self._requests(client, to_broker, asked)),
            asyncio.ensure_future(self._replies(broker, to_client, asked)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for writer in both:
                writer.transport.abort()
            self._open -= both

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        made = self._make_socket()
        made.setblocking(False)
        try:
            await self._loop.sock_connect(made, (_HOST, self.target))
        except BaseException:
            made.close()
            raise
        return await asyncio.open_connection(sock=made, limit=_LIMIT)

    async def _requests(
        self,
        client: asyncio.StreamReader,
        broker: asyncio.StreamWriter,
        asked: dict[int, tuple[int, int]],
    ) -> None:
        while frame := await _read(client):
            api, version, correlation = _REQUEST.unpack_from(frame)
            if any(
                kind in (None, api) and client.match(_client_id(frame))
                for client, kind in self._refusals
            ):
                return
            if self._keeps(api, frame):
                return
            asked[correlation] = api, version
            self.requests[api] += 1
            await _write(broker, frame)

    async def _replies(
        self,
        broker: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        asked: dict[int, tuple[int, int]],
    ) -> None:
        while frame := await _read(broker):
            (correlation,) = _SIZE.unpack_from(frame)
            api, version = asked.pop(correlation, (None, 0))
            if _is_concurrent(api, frame):
                self.refused[api or 0] += 1
            if self._is_lost(api):
                return
            if self._is_mute:
                self.swallowed += 1
                continue
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            if api == Api.API_VERSIONS and self._highest:
                frame = _limited(frame, version, self._highest)
            if api in self._replaced:
                frame = frame.replace(*self._replaced[api])
            await _write(client, frame)

    async def _deliver(self, request: bytes) -> bytes:
        broker, to_broker = await self._connect()
        try:
            await _write(to_broker, request)
            reply = await _read(broker)
            assert reply is not None
            return reply
        finally:
            to_broker.transport.abort()

    def _keeps(self, api: int, frame: bytes) -> bool:
        for hold in self._holds:
            if hold.api == api:
                hold.request = frame
                self._holds.remove(hold)
                hold.happened.set()
                return True
        return False

    def _is_lost(self, api: int | None) -> bool:
        for drop in self._drops:
            if drop.api == api:
                drop.left -= 1
                if drop.left == 0:
                    self._drops.remove(drop)
                    drop.happened.set()
                return True
        return False


def _client_id(request: bytes) -> bytes:
    (length,) = _ERROR.unpack_from(request, _REQUEST.size)
    start = _REQUEST.size + _ERROR.size
    return request[start : start + max(length, 0)]


def _is_concurrent(api: int | None, reply: bytes) -> bool:
    """Whether a coordinator answers that the former transaction is not over.

    Of the versions that Kafka's client sends, 3 and up: correlation id, tags, throttle time, then
    the error, or topics with their partitions.
    """
    if api == Api.ADD_OFFSETS_TO_TXN:
        return _ERROR.unpack_from(reply, 9) == (_CONCURRENT_TRANSACTIONS,)
    if api == Api.ADD_PARTITIONS_TO_TXN and len(reply) > 10:
        name = reply[10] - 1
        # The name, how many partitions, the first one's number.
        return _ERROR.unpack_from(reply, 11 + name + 1 + 4) == (_CONCURRENT_TRANSACTIONS,)
    return False


def _limited(reply: bytes, version: int, highest: Mapping[int, int]) -> bytes:
    """An answer to ApiVersions without what is above these versions; -1 removes an api key."""
    (error,) = _ERROR.unpack_from(reply, 4)
    # A version that the broker does not know is answered in the first one's form.
    is_compact = version >= 3 and error == 0
    entry = _RANGE.size + (1 if is_compact else 0)  # no tags
    if is_compact:
        count, start = _unsigned(reply, 6)
        count -= 1
    else:
        (count,), start = _SIZE.unpack_from(reply, 6), 10
    kept = []
    for at in range(start, start + count * entry, entry):
        api, lowest, last = _RANGE.unpack_from(reply, at)
        last = min(last, highest.get(api, last))
        if last >= lowest:
            tags = reply[at + _RANGE.size : at + entry]
            kept.append(_RANGE.pack(api, lowest, last) + tags)
    size = _to_unsigned(len(kept) + 1) if is_compact else _SIZE.pack(len(kept))
    return reply[:6] + size + b"".join(kept) + reply[start + count * entry :]


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _to_unsigned(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    """A frame without its size; None at the connection's end."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        return await reader.readexactly(size)
    return None


async def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(_SIZE.pack(len(frame)) + frame)
    with contextlib.suppress(OSError):
        await writer.drain()
