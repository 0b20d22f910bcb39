"""Noise, and valid texts with faults in them (as `io.eoskafka.foreign.ForeignInput` makes them)."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

ALPHABET = "abcXYZ019-_.:,{}[]\"'\\/+ eE\0\t\n\r\x7f\u0660\u0663\u00e9\u2028\ufeff\ufffd\U0001f600"
IDENTITY = "AZaz09-_"

# Deeper than any reader goes, which must not end in an overflow of the stack.
_DEEP = 20_000
_MANY_DIGITS = 5_000

# In the place of any value.
_VALUES = (
    *("null", "true", "false", '""', '"7"', '"\\ud800"', '"-1"', "7.0", "7.5", "1e3", "1e999"),
    *("-0", "0", "1", "2", "-1", "2147483647", "2147483648", "999999999999999999"),
    *("1000000000000000000", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775809", "99999999999999999999", "9" * _MANY_DIGITS, "NaN", "-Infinity"),
    *("[]", "{}", "[{}]", "[null]", '{"0":{"0":0}}'),
    "[" * _DEEP + "]" * _DEEP,
    '{"a":' * _DEEP + "1" + "}" * _DEEP,
)
_MEMBER = re.compile(r'"[^"\\]*":')
# Stands for one of them in a tree, which holds only what is JSON.
_MARK = "\x00mark\x00"


def text(random: Random, alphabet: str, length: int) -> str:
    return "".join(random.choice(alphabet) for _ in range(length))


def digest(random: Random) -> str:
    """22 characters, as an identity has them."""
    return text(random, IDENTITY, 22)


def number(random: Random, least: int, most: int) -> int:
    """A number, more often near the ends of the range."""
    kind = random.randrange(6)
    if kind == 0:
        return min(most, least + random.randrange(3))
    if kind == 1:
        return max(least, most - random.randrange(3))
    return random.randint(least, most)


def noise(random: Random) -> str:
    """Any bytes, or characters that mean something somewhere."""
    length = random.randrange(40)
    if random.random() < 0.5:
        return bytes(random.randrange(256) for _ in range(length)).decode("utf-8", "replace")
    return text(random, ALPHABET, length)


def damaged(random: Random, valid: str) -> str:
    """A text cut off, with characters changed, added, removed or repeated."""
    at = random.randint(0, len(valid))
    to = random.randint(at, len(valid))
    kind = random.randrange(7)
    if kind == 0:
        return valid[:at]
    if kind == 1:
        return valid[at:]
    if kind == 2:
        return valid[:at] + valid[to:]
    if kind == 3:
        return valid[:to] + valid[at:]
    if kind == 4:
        return valid + noise(random)
    if kind == 5:
        return valid[:at] + random.choice(ALPHABET) + valid[at:]
    flipped = bytearray(valid.encode())
    if flipped:
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return flipped.decode("utf-8", "replace")


def damaged_json(random: Random, valid: str) -> str:
    """A JSON text as it is, damaged, or with values removed, replaced, moved or repeated."""
    kind = random.randrange(10)
    if kind == 0:
        return valid
    if kind == 1:
        return noise(random)
    if kind in (2, 3):
        return damaged(random, valid)
    if kind == 4:
        return random.choice(_VALUES)
    try:
        root = json.loads(valid)
    except (ValueError, RecursionError):
        return damaged(random, valid)  # it has a fault already
    if not isinstance(root, dict | list):
        return damaged(random, valid)
    marked: list[str] = []
    for _ in range(random.randint(1, 2)):
        _damage(random, root, marked)
    found = json.dumps(root, separators=(",", ":"))
    for value in marked:
        found = found.replace(json.dumps(_MARK), value, 1)
    members = [*_MEMBER.finditer(found)] if random.randrange(6) == 0 else []
    if members:
        # Two members of one name, which no tree has.
        member = random.choice(members)
        repeated = f"{member[0]}{random.choice(_VALUES)},"
        found = found[: member.start()] + repeated + found[member.start() :]
    return found


def _all(node: Any) -> Iterator[Any]:
    yield node
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for each in values:
        yield from _all(each)


def _damage(random: Random, root: Any, marked: list[str]) -> None:
    everything = list(_all(root))
    into = random.choice([node for node in everything if isinstance(node, dict | list)])
    if random.randrange(3) == 0:
        value = copy.deepcopy(random.choice(everything))
    else:
        value = _MARK
        marked.append(random.choice(_VALUES))
    if isinstance(into, list):
        kind = random.randrange(4) if into else 0
        if kind == 0:
            into.append(value)
        elif kind == 1:
            into[random.randrange(len(into))] = value
        else:
            del into[random.randrange(len(into))]
        return
    name = random.choice(list(into)) if into else "added"
    kind = random.randrange(5) if into else 4
    if kind == 0:
        del into[name]
    elif kind == 1:
        into[random.choice(["added", "007", "-1", "\u0663", ""])] = value
    elif kind == 2:
        into[random.choice(list(into))] = into[name]
    elif kind == 3 and type(into[name]) is int:
        into[name] += random.randint(-2, 2)
    else:
        into[name] = value
