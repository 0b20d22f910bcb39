"""Avro schemas as values that can be compared, and the part of Avro that is supported.

A schema is supported if Avro's own library, Spark's functions and Confluent's serializers are known
to agree on its values. Everything else is refused by name. The supported part has records, enums,
fixed values, arrays, maps, primitive types, and unions of null and one other type.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from eoskafka import _json

NULLABLE = "nullable"
PRIMITIVES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
# A longer precision is not possible in Spark.
MAX_PRECISION = 38
# Limits for a schema that others have registered: the number of types, where each use counts, as in
# Spark (a record that uses another one twice counts it twice), and the depth of nesting.
MOST_TYPES = 10_000
MOST_LEVELS = 64
# Of a fixed type, in bytes: a reader makes room for it before it has read one.
MOST_BYTES = 1 << 20
# Which type each logical type belongs to, and what Spark makes of it.
_LOGICAL = {
    "date": ("int", "date"),
    "timestamp-millis": ("long", "timestamp"),
    "timestamp-micros": ("long", "timestamp"),
    "local-timestamp-millis": ("long", "timestamp_ntz"),
    "local-timestamp-micros": ("long", "timestamp_ntz"),
    "uuid": ("string", "string"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UnsupportedError(Exception):
    """A schema that is not supported; the text says what in it is not, and where."""


@dataclass(frozen=True)
class Logical:
    """A logical type. Only a decimal has a precision and a scale."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return self.name


@dataclass(frozen=True)
class Field:
    """A field of a record; its default is a text in JSON, or None if it has none."""

    name: str
    type: Type
    default: str | None = None


@dataclass(frozen=True)
class Type:
    """A type with everything that decides what its bytes mean.

    Attributes:
        kind: a primitive type, `record`, `enum`, `fixed`, `array`, `map`, or `nullable`.
        name: the full name of a record, an enum or a fixed type.
        item: what an array, a map or a nullable type has.
        size: of a fixed type, in bytes.
        null_first: whether null is the first branch of a nullable type.
        types: how many it has in all, itself included; what has a name counts in each place anew.
        levels: how deeply they are nested.
    """

    kind: str
    name: str = ""
    fields: tuple[Field, ...] = ()
    item: Type | None = None
    symbols: tuple[str, ...] = ()
    size: int = 0
    logical: Logical | None = None
    null_first: bool = False
    types: int = field(init=False, compare=False, repr=False)
    levels: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        within = [each.type for each in self.fields]
        if self.item is not None:
            within.append(self.item)
        # The class is frozen.
        object.__setattr__(self, "types", 1 + sum(each.types for each in within))
        object.__setattr__(self, "levels", 1 + max((each.levels for each in within), default=0))

    def inner(self) -> Type:
        """The type of what an array, a map or a nullable type has."""
        assert self.item is not None
        return self.item

    def __str__(self) -> str:
        name = f"{self.kind} {self.name}" if self.name else self.kind
        return name if self.logical is None else f"{name} with the logical type {self.logical}"


def parse(text: str) -> Type:
    """The type that a schema describes.

    Raises:
        UnsupportedError: it is no Avro schema, or not in the supported part of Avro.
    """
    if not isinstance(text, str):
        raise UnsupportedError("it has no text")
    try:
        node = _json.parse(text, _finite)
    except ValueError as error:
        raise UnsupportedError(f"it is no JSON ({error})") from error
    found = _Parser().type(node, "", "")
    # Confluent's serializers write other values than records and these as raw bytes, or differ.
    if found.kind != "record" and (found.kind == "bytes" or found.kind not in PRIMITIVES):
        raise UnsupportedError(
            f"its top level is of the type {found.kind}, and only a record or a primitive type "
            "other than bytes and null is supported there"
        )
    return found


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text} is too large")
    return found


def place(path: str) -> str:
    """How a message names a part of a schema."""
    return f"the field {path}" if path else "its top level"


class _Parser:
    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._open: set[str] = set()
        self._level = 0

    def type(self, node: Any, namespace: str, path: str) -> Type:
        self._level += 1
        found = self._type(node, namespace, path) if self._level <= MOST_LEVELS else None
        self._level -= 1
        if found is None or found.levels > MOST_LEVELS or found.types > MOST_TYPES:
            raise UnsupportedError(
                f"{place(path)} has more than {MOST_TYPES:,} types, or more than {MOST_LEVELS} "
                "within each other"
            )
        return found

    def _type(self, node: Any, namespace: str, path: str) -> Type:
        if isinstance(node, list):
            return self._union(node, namespace, path)
        if isinstance(node, str):
            if node in PRIMITIVES:
                return Type(node)
            return self._named_before(node, namespace, path)
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            raise UnsupportedError(f"{place(path)} has no type that is a name")
        kind = node["type"]
        if kind in PRIMITIVES:
            return Type(kind, logical=_logical(node, kind, 0, path))
        if kind in ("array", "map", "record", "enum"):
            # None of them can have one.
            _logical(node, kind, 0, path)
        if kind == "array":
            return Type(kind, item=self.type(node.get("items"), namespace, f"{path}[]"))
        if kind == "map":
            return Type(kind, item=self.type(node.get("values"), namespace, f"{path}{{}}"))
        if kind in ("record", "enum", "fixed"):
            return self._define(node, kind, namespace, path)
        return self._named_before(kind, namespace, path)

    def _named_before(self, name: str, namespace: str, path: str) -> Type:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self._open:
            raise UnsupportedError(f"{place(path)} is recursive: it is inside of {full} itself")
        if full not in self._known:
            raise UnsupportedError(
                f"{place(path)} is of the type {full}, which the schema itself does not define, or "
                "which is not supported"
            )
        return self._known[full]

    def _union(self, branches: list[Any], namespace: str, path: str) -> Type:
        others = [each for each in branches if each not in ("null", {"type": "null"})]
        if len(branches) != 2 or len(others) != 1:
            raise UnsupportedError(
                f"{place(path)} is a union, and only one of null and one other type is supported"
            )
        item = self.type(others[0], namespace, path)
        if item.kind == NULLABLE:
            raise UnsupportedError(f"{place(path)} is a union in a union")
        return Type(NULLABLE, item=item, null_first=branches[0] is not others[0])

    def _define(self, node: dict[str, Any], kind: str, namespace: str, path: str) -> Type:
        name = _full_name(node, namespace, path)
        if name in self._known or name in self._open:
            raise UnsupportedError(f"{place(path)} defines the name {name} a second time")
        if node.get("aliases"):
            raise UnsupportedError(f"the type {name} has aliases, which are not supported")
        self._open.add(name)
        if kind == "record":
            made = Type(kind, name, fields=self._fields(node, name, path))
        elif kind == "enum":
            made = Type(kind, name, symbols=_symbols(node, name))
        else:
            size = node.get("size")
            if type(size) is not int or not 1 <= size <= MOST_BYTES:
                raise UnsupportedError(
                    f"the type {name} has the size {size!r}, and must have one from 1 to "
                    f"{MOST_BYTES:,} bytes"
                )
            made = Type(kind, name, size=size, logical=_logical(node, kind, size, path))
        self._open.remove(name)
        self._known[name] = made
        return made

    def _fields(self, node: dict[str, Any], record: str, path: str) -> tuple[Field, ...]:
        fields, names = [], set()
        given = node.get("fields")
        # An item without a byte would let a short value claim any number of them.
        if not isinstance(given, list) or not given:
            raise UnsupportedError(f"the record {record} has no fields")
        namespace = record.rpartition(".")[0]
        for each in given:
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise UnsupportedError(f"the record {record} has a field with the name {name!r}")
            if name.lower() in names:
                raise UnsupportedError(
                    f"the record {record} has two fields {name}, up to upper and lower case"
                )
            if each.get("aliases"):
                raise UnsupportedError(
                    f"the field {name} of the record {record} has aliases, which are not supported"
                )
            names.add(name.lower())
            kind = self.type(each.get("type"), namespace, f"{path}.{name}".lstrip("."))
            default = json.dumps(each["default"]) if "default" in each else None
            fields.append(Field(name, kind, default))
        return tuple(fields)


def _full_name(node: dict[str, Any], namespace: str, path: str) -> str:
    name = node.get("name")
    if isinstance(name, str) and "." not in name:
        given = node.get("namespace")
        space = namespace if given is None else given
        name = f"{space}.{name}" if space else name
    if (
        not isinstance(name, str)
        or not all(map(_NAME.fullmatch, name.split(".")))
        or name in (*PRIMITIVES, "null")
    ):
        raise UnsupportedError(f"{place(path)} has the name {name!r}, which Avro does not allow")
    return name


def _symbols(node: dict[str, Any], name: str) -> tuple[str, ...]:
    found = node.get("symbols")
    if (
        not isinstance(found, list)
        or not found
        or not all(isinstance(each, str) and _NAME.fullmatch(each) for each in found)
        or len(set(found)) != len(found)
    ):
        raise UnsupportedError(f"the enum {name} has symbols that Avro does not allow")
    return tuple(found)


def _logical(node: dict[str, Any], kind: str, size: int, path: str) -> Logical | None:
    """The logical type of a node; one that its type cannot have is refused, not ignored."""
    name = node.get("logicalType")
    if name is None:
        return None
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = node.get("precision"), node.get("scale", 0)
        largest = MAX_PRECISION if kind == "bytes" else min(MAX_PRECISION, digits(size))
        if (
            type(precision) is not int
            or type(scale) is not int
            or not 1 <= precision <= largest
            or not 0 <= scale <= precision
        ):
            raise UnsupportedError(
                f"{place(path)} is a decimal with the precision {precision!r} and the scale "
                f"{scale!r}, and the precision must be from 1 to {largest} and at least the scale"
            )
        return Logical("decimal", precision, scale)
    if not isinstance(name, str) or _LOGICAL.get(name, ("",))[0] != kind:
        raise UnsupportedError(
            f"{place(path)} is of the type {kind} with the logical type {name}, which is not "
            "supported"
        )
    return Logical(name)


def digits(size: int) -> int:
    """How many digits each number has room for in so many bytes."""
    # Every decimal that Spark has is shorter than this, and Python writes no number of thousands.
    return len(str(2 ** (8 * min(size, MAX_PRECISION) - 1) - 1)) - 1


def text_of(of: Type) -> str:
    """The schema as Spark gets it: without what has no meaning, and always the same text.

    Every type is in no namespace there, so no name can mean anything else than it says.
    """
    return json.dumps(_emit(of, set()), sort_keys=True, separators=(",", ":"))


def hash_of(of: Type) -> str:
    """SHA-256 of `text_of`."""
    return hashlib.sha256(text_of(of).encode()).hexdigest()


def _emit(of: Type, defined: set[str]) -> Any:
    if of.kind == NULLABLE:
        branches = [_emit(of.inner(), defined), "null"]
        return branches[::-1] if of.null_first else branches
    made: dict[str, Any] = {"type": of.kind}
    if of.logical is not None:
        made["logicalType"] = of.logical.name
        if of.logical.name == "decimal":
            made |= {"precision": of.logical.precision, "scale": of.logical.scale}
    if of.kind == "array":
        return made | {"items": _emit(of.inner(), defined)}
    if of.kind == "map":
        return made | {"values": _emit(of.inner(), defined)}
    if not of.name:
        return made if of.logical is not None else of.kind
    # Two names never become the same one.
    made["name"] = of.name.replace("_", "__").replace(".", "_d")
    if of.name in defined:
        return made["name"]
    defined.add(of.name)
    if of.kind == "enum":
        return made | {"symbols": list(of.symbols)}
    if of.kind == "fixed":
        return made | {"size": of.size}
    fields = []
    for each in of.fields:
        field = {"name": each.name, "type": _emit(each.type, defined)}
        if each.default is not None:
            field["default"] = json.loads(each.default)
        fields.append(field)
    return made | {"fields": fields}


def spark_type(of: Type, quote: str = "") -> str:
    """The type of a column, as Spark's `typeof` prints it.

    Args:
        quote: a character around the names of fields; DDL wants one.
    """
    if of.kind == NULLABLE:
        return spark_type(of.inner(), quote)
    if of.kind == "array":
        return f"array<{spark_type(of.inner(), quote)}>"
    if of.kind == "map":
        return f"map<string,{spark_type(of.inner(), quote)}>"
    if of.kind == "record":
        fields = (f"{quote}{f.name}{quote}:{spark_type(f.type, quote)}" for f in of.fields)
        return f"struct<{','.join(fields)}>"
    if of.kind == "enum":
        return "string"
    if of.logical is None:
        return PRIMITIVES.get(of.kind, "binary")
    if of.logical.name == "decimal":
        return f"decimal({of.logical.precision},{of.logical.scale})"
    return _LOGICAL[of.logical.name][1]
