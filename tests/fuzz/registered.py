"""Readers of what registries, drivers and token services have written: schemas, pins, tokens.

As those of `readers.py`: each makes one input, and returns whether it was read.
"""

from __future__ import annotations

import base64
import json
import math
from random import Random
from typing import Any

import fastavro
from eoskafka import tokens
from eoskafka.errors import ConfigurationError
from eoskafka.schemas import pin
from eoskafka.schemas.resolution import without_defaults
from eoskafka.schemas.types import (
    MOST_LEVELS,
    MOST_TYPES,
    UnsupportedError,
    hash_of,
    parse,
    spark_type,
    text_of,
)

from fuzz import inputs

# ---- schemas

_PRIMITIVES = ("boolean", "int", "long", "float", "double", "string", "bytes")
_LOGICAL: tuple[dict[str, Any], ...] = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "int", "logicalType": "time-millis"},
)
_SIZES = (1, 16, 2_000, 10**10, 2**31, 2**63, "9" * 20)


class _Schema:
    """A schema whose names are its own."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names: list[str] = []

    def record(self, depth: int) -> dict[str, Any]:
        name = self.name()
        fields: list[dict[str, Any]] = []
        for number in range(self.random.randint(1, 3)):
            made: dict[str, Any] = {"name": f"f{number}", "type": self.type(depth)}
            if self.random.randrange(4) == 0:
                made["default"] = self.random.choice([0, -1, 1e300, "", None, [], {}, True])
            fields.append(made)
        self.names.append(name)
        return {"type": "record", "name": name, "fields": fields}

    def name(self) -> str:
        begin = self.random.choice(["a.R", "R", "a_b.c.R", "int", "null"])
        return begin + (str(len(self.names)) if begin.endswith("R") else "")

    def type(self, depth: int) -> Any:
        random = self.random
        kind = random.randrange(9 if depth else 4)
        if kind == 0:
            return random.choice(_PRIMITIVES)
        if kind == 1:
            return random.choice(_LOGICAL)
        if kind == 2:
            return random.choice(self.names) if self.names else "string"
        if kind == 3:
            name = f"F{len(self.names)}"
            self.names.append(name)
            if random.random() < 0.5:
                return {"type": "enum", "name": name, "symbols": ["A", "B"]}
            size = random.choice(_SIZES)
            decimal = {"logicalType": "decimal", "precision": 3} if random.random() < 0.5 else {}
            return {"type": "fixed", "name": name, "size": size, **decimal}
        if kind == 4:
            return {"type": "array", "items": self.type(depth - 1)}
        if kind == 5:
            return {"type": "map", "values": self.type(depth - 1)}
        if kind == 6:
            return random.choice([["null", self.type(depth - 1)], [self.type(depth - 1), "null"]])
        return self.record(depth - 1)


def doubled(records: int) -> dict[str, Any]:
    """So many records, each of which has the one before it twice."""
    made: dict[str, Any] = {
        "type": "record",
        "name": "R0",
        "fields": [{"name": "x", "type": "int"}],
    }
    for number in range(1, records):
        twice = [{"name": "x", "type": made}, {"name": "y", "type": f"R{number - 1}"}]
        made = {"type": "record", "name": f"R{number}", "fields": twice}
    return made


def a_schema(random: Random) -> bool:
    """Any text is a schema of a bounded size, which Avro's own readers know too, or is refused."""
    made = (
        doubled(random.randint(2, 40)) if random.randrange(20) == 0 else _Schema(random).record(3)
    )
    text = json.dumps(made)
    if random.randrange(3):
        text = inputs.damaged_json(random, text)
    try:
        found = parse(text)
    except UnsupportedError:
        return False
    assert found.types <= MOST_TYPES
    assert found.levels <= MOST_LEVELS
    again = parse(text_of(found))
    assert spark_type(again) == spark_type(found)
    assert len(hash_of(found)) == 64
    # A default counts only if a writer lacks the field, and is judged then.
    fastavro.parse_schema(json.loads(text_of(without_defaults(found))))
    return True


# ---- pins


def a_pin(random: Random) -> bool:
    """The file that names the schema with which a query began."""
    valid = {
        **{"format": 1, "subject": inputs.noise(random), "version": random.randint(1, 9)},
        **{"id": inputs.number(random, 0, 2**31 - 1), "sha256": inputs.digest(random)},
    }
    assert pin._parsed("/pin", json.dumps(valid)) == valid
    try:
        found = pin._parsed("/pin", inputs.damaged_json(random, json.dumps(valid)))
    except ConfigurationError:
        return False
    assert [type(found[name]) for name in sorted(valid)] == [int, int, str, str, int]
    return True


# ---- tokens


def a_token(random: Random) -> bool:
    """When a token ends is a number, or not known."""
    ends: Any = random.choice([inputs.number(random, 0, 2**63), 1.5, "7", "nan", "Infinity", None])
    claims = inputs.damaged_json(random, json.dumps({"sub": "me", "exp": ends}))
    part = base64.urlsafe_b64encode(claims.encode("utf-8", "replace")).decode().rstrip("=")
    text = random.choice([f"e30.{part}.x", f"e30.{part}", inputs.damaged(random, f"e30.{part}.x")])
    found = tokens._end(text)
    assert found is None or math.isfinite(found)
    return found is not None


ALL = (a_schema, a_pin, a_token)
