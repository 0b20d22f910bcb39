"""What identifies a record: its key, its value, both, or a field of its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b

from eoskafka.audit.request import By, Request

NO_KEY = 0


class NoIdError(Exception):
    """A record has nothing that identifies it."""


def id_of(request: Request) -> Callable[[bytes | None, bytes | None], tuple[bytes | None, ...]]:
    """The function that takes a key and a value, and returns what identifies the record.

    Raises:
        NoIdError: of the function: the record has nothing that identifies it.
    """

    def key_alone(key: bytes | None, _value: bytes | None) -> tuple[bytes | None, ...]:
        if key is None:
            raise NoIdError(
                "it has no key: identify records by their value, or by a field of the value"
            )
        return (key,)

    def value_alone(_key: bytes | None, value: bytes | None) -> tuple[bytes | None, ...]:
        return (value,)

    def both(key: bytes | None, value: bytes | None) -> tuple[bytes | None, ...]:
        return (key, value)

    path = request.id_field.split(".")

    def in_json(_key: bytes | None, value: bytes | None) -> tuple[bytes | None, ...]:
        try:
            found = json.loads(value or b"null")
            for name in path:
                found = found[name]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise NoIdError(f"its value has no field {request.id_field}") from error
        if found is None:
            raise NoIdError(f"its field {request.id_field} is null")
        return (json.dumps(found, sort_keys=True).encode(),)

    if request.id_field:
        return in_json
    return {By.KEY: key_alone, By.VALUE: value_alone, By.DIGEST: both}[request.by]


def digest_of(parts: Iterable[bytes | None]) -> bytes:
    """Of an id: 16 bytes, so that no two ids have the same by chance."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return digest.digest()


def key_number(key: bytes | None) -> int:
    """Eight bytes of a key's digest as a number; `NO_KEY` stands for a record without a key."""
    if key is None:
        return NO_KEY
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1
