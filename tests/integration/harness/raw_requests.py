"""`RawConnection`: requests to a broker that no client sends."""

from __future__ import annotations

import socket
import struct

from kafka.record.default_records import DefaultRecordBatchBuilder

_INIT_PRODUCER_ID = 22
_PRODUCE = 0
# What a broker answers that verifies the transaction, or is about to.
_REFUSED = (19, 49)
_CONCURRENT_TRANSACTIONS = 51


class RawConnection:
    """A connection to the broker on a port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def initialise(self, transactional_id: str) -> int:
        """InitProducerId; the id's new epoch, or -1 while a transaction of it ends."""
        body = text(transactional_id) + struct.pack(">i", 60_000)
        error, _, epoch = struct.unpack(">hqh", self._ask(_INIT_PRODUCER_ID, 1, body)[4:])
        assert error in (0, _CONCURRENT_TRANSACTIONS), error
        return int(epoch)

    def produce(self, topic: str, producer_id: int) -> bool:
        """A record in partition 0, in a transaction that no coordinator was told of.

        As versions of the request below 12 have it.

        Returns:
            whether the broker has taken it, which it does only if
            transaction.partition.verification.enable is false
        """
        batch = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            batch_size=1_000,
        )
        batch.append(offset=0, timestamp=0, key=b"k", value=b"1", headers=[])
        records = bytes(batch.build())
        body = text("nobody") + struct.pack(">hii", -1, 10_000, 1) + text(topic)
        body += struct.pack(">iii", 1, 0, len(records)) + records
        answer = self._ask(_PRODUCE, 7, body)[4 + len(text(topic)) :]
        (error,) = struct.unpack(">h", answer[8:10])
        assert error in (0, *_REFUSED), error
        return int(error) == 0

    def _ask(self, api: int, version: int, body: bytes) -> bytes:
        """The answer to a request whose version has no tagged fields."""
        header = struct.pack(">hhih", api, version, 0, -1)
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)[4:]

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "the broker has closed the connection"
            found += part
        return found


def text(of: str) -> bytes:
    """As requests have it: its length, and itself."""
    return struct.pack(">h", len(of.encode())) + of.encode()
