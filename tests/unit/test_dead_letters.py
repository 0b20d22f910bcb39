"""Guarded functions, as executors run them; what needs a session is in the integration tests."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from eoskafka import guard
from eoskafka.cli.dead_letters import _table
from eoskafka.cli.output import print_table
from eoskafka.dead_letters import PREFIX, Origin
from eoskafka.guarded import _has_timestamp, _of_rows, _of_series
from eoskafka.replay import DeadLetter
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.conversion import PandasToArrowConversion
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)


def run(function: Callable[..., Any], *arguments: Any, kind: DataType | None = None) -> Any:
    return _of_rows(function, kind or StringType(), Exception)(*arguments)


def test_a_result_has_no_error() -> None:
    assert run(str.upper, "a") == ("A", None)
    assert run(lambda: None) == (None, None)


def test_an_exception_is_returned_with_its_class() -> None:
    assert run(json.loads, "x") == (
        None,
        "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (StringType(), 1),
        (StringType(), b"a"),
        (StringType(), "\ud800"),
        (BinaryType(), "a"),
        (IntegerType(), "1"),
        (IntegerType(), 1 << 31),
        (IntegerType(), Decimal(1)),
        (StructType([StructField("a", StringType(), False)]), (None,)),
        (DecimalType(9, 2), Decimal("123456789.5")),
        (DecimalType(9, 2), Decimal("9999999.995")),
        (DecimalType(9, 2), Decimal("1e999999")),
        (DecimalType(9, 2), Decimal("-Infinity")),
        (ArrayType(StringType()), [1]),
        (ArrayType(StringType()), ["\ud800"]),
        (MapType(StringType(), StringType()), {"\ud800": "a"}),
        (MapType(StringType(), DecimalType(2, 0)), {"a": Decimal(100)}),
        (StructType([StructField("a", StringType())]), {"a": "\ud800"}),
        (StructType([StructField("a", StringType())]), Row(a="\ud800")),
        (ArrayType(StructType([StructField("a", DateType())])), [("2024-01-01",)]),
        (TimestampType(), datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))),
        (DayTimeIntervalType(), timedelta.max),
    ],
    ids=repr,
)
def test_a_result_of_another_type_is_an_error(kind: DataType, value: object) -> None:
    result, error = run(lambda: value, kind=kind)
    assert result is None
    assert error is not None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (DecimalType(9, 2), Decimal("-9999999.9949")),
        (DecimalType(38, 0), Decimal("9" * 38)),
        (DecimalType(38, 18), Decimal("-" + "9" * 20 + "." + "9" * 18)),
        (DecimalType(38, 38), Decimal("0.1")),
        (ArrayType(StringType()), ["a", None]),
        (MapType(StringType(), ArrayType(IntegerType())), {"a": [1, None], "b": None}),
        (StructType([StructField("a", StringType()), StructField("b", DateType())]), {"a": "x"}),
        (StructType([StructField("a", StringType())]), Row(a="x")),
        (TimestampType(), datetime(9999, 12, 31, tzinfo=timezone.utc)),
        (DayTimeIntervalType(), timedelta(days=-1)),
    ],
    ids=repr,
)
def test_a_result_of_the_type_is_no_error(kind: DataType, value: object) -> None:
    assert run(lambda: value, kind=kind) == (value, None)


@pytest.mark.parametrize("error", [MemoryError(), ModuleNotFoundError("no module")], ids=repr)
def test_what_says_nothing_of_the_row_is_raised(error: Exception) -> None:
    def fail(_: object) -> None:
        raise error

    with pytest.raises(type(error)):
        run(fail, "a")
    with pytest.raises(type(error)):
        _of_series(fail, StringType(), Exception)(pd.Series(["a"]))


def test_what_is_not_caught_is_raised() -> None:
    def fail(with_: Exception) -> None:
        raise with_

    guarded = _of_rows(fail, StringType(), (KeyError, ValueError))
    assert guarded(KeyError("k")) == (None, "KeyError: 'k'")
    with pytest.raises(ConnectionError):
        guarded(ConnectionError())


def test_a_reason_is_short_and_the_same_in_each_run() -> None:
    class UnshownError(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail(with_: object) -> None:
        raise with_ if isinstance(with_, Exception) else ValueError(with_)

    assert len(run(fail, "x" * 5_000)[1]) == 1_000
    assert run(fail, "\ud800")[1] == "ValueError: ?"
    assert run(fail, f"no {object()!r}")[1] == "ValueError: no <object object>"
    assert run(fail, UnshownError())[1] == "UnshownError: its message cannot be shown"


def test_only_the_rows_that_fail_are_errors_in_pandas() -> None:
    calls: list[int] = []

    def upper(values: pd.Series, more: pd.DataFrame) -> pd.Series:
        calls.append(len(values))
        assert [*values.index] == [*more.index] == [*range(len(values))]
        if values.str.startswith("bad").any():
            raise ValueError(f"{values[0]} of {len(values)}")
        return values.str.upper()

    values = pd.Series([f"bad{n}" if n in (3, 70) else f"v{n}" for n in range(100)])
    found = _of_series(upper, StringType(), Exception)(values, pd.DataFrame({"a": values}))
    assert [*found["value"]] == [None if n in (3, 70) else f"V{n}" for n in range(100)]
    assert {n: e for n, e in enumerate(found["error"]) if e is not None} == {
        3: "ValueError: bad3 of 1",
        70: "ValueError: bad70 of 1",
    }
    assert len(calls) < 40


@pytest.mark.parametrize(
    "function",
    [lambda s: s[:0], lambda s: [*s], lambda s: s.map(len)],
    ids=["too few rows", "a list", "another type"],
)
def test_a_wrong_result_of_a_pandas_function_is_an_error(function: Callable[..., Any]) -> None:
    found = _of_series(function, StringType(), Exception)(pd.Series(["a", "b"]))
    assert [*found["value"]] == [None, None]
    assert found["error"].notna().all()


@pytest.mark.parametrize("kind", [StringType(), TimestampType()])
def test_an_empty_batch_has_no_rows(kind: DataType) -> None:
    nothing = pd.Series([], dtype=object)
    columns = [nothing] * 2 if kind == TimestampType() else [nothing]
    assert len(_of_series(lambda s: s / 0, kind, Exception)(*columns)) == 0


def test_an_unknown_time_zone_makes_no_row_an_error() -> None:
    guarded = _of_series(lambda s: s, TimestampType(), Exception)
    with pytest.raises(Exception, match="GMT\\+3"):
        guarded(pd.Series([pd.Timestamp(0)]), pd.Series(["GMT+3"]))


ZONE = "America/New_York"
NOON, NEVER, TWICE = (
    datetime(2026, 1, 1, 12),
    # The clocks there skip the one, and show the other for a second time an hour later.
    datetime(2026, 3, 8, 2, 30),
    datetime(2026, 11, 1, 1, 30),
)
NOON_THERE = datetime(2026, 1, 1, 17, tzinfo=timezone.utc)
PAIR = StructType([StructField("at", TimestampType()), StructField("text", StringType())])


def in_spark(kind: DataType, *results: pd.Series) -> list[Any]:
    """What Spark's worker makes of a batch; Exception for a row that is an error.

    The function returns rows of one result at a time, and fails if it is asked for more.
    """
    places = [(part, row) for part, result in enumerate(results) for row in range(len(result))]

    def function(asked: pd.Series) -> pd.Series:
        ((part, first), (last_part, last)) = asked.iloc[0], asked.iloc[-1]
        if part != last_part:
            raise ValueError
        return results[part][first : last + 1].reset_index(drop=True)

    zones = [pd.Series([ZONE] * len(places))] if _has_timestamp(kind) else []
    found = _of_series(function, kind, Exception)(pd.Series(places), *zones)
    names = [StructField("value", kind), StructField("error", StringType())]
    batch = PandasToArrowConversion.convert(
        [found],
        StructType([StructField("_0", StructType(names))]),
        timezone=ZONE,
        safecheck=False,
        assign_cols_by_name=True,
    )
    rows = batch.column(0).to_pylist()
    return [row["value"] if row["error"] is None else Exception for row in rows]


@pytest.mark.parametrize(
    ("kind", "results", "wanted"),
    [
        (TimestampType(), [[NOON, None]], [NOON_THERE, None]),
        (TimestampType(), [[NOON], [NOON_THERE]], [NOON_THERE, NOON_THERE]),
        (TimestampType(), [[NEVER], [NOON]], [Exception, NOON_THERE]),
        (TimestampNTZType(), [[NOON, None], [NEVER, TWICE]], [NOON, None, NEVER, TWICE]),
        (ArrayType(TimestampType()), [[[NOON], None]], [[NOON_THERE], None]),
        (
            ArrayType(TimestampType()),
            [[[NOON]], [[NEVER]], [[TWICE]]],
            [[NOON_THERE], Exception, Exception],
        ),
        (PAIR, [[{"at": NOON, "text": "a"}]], [{"at": NOON_THERE, "text": "a"}]),
    ],
)
def test_a_timestamp_without_a_time_zone_is_in_the_sessions(
    kind: DataType, results: list[Any], wanted: list[Any]
) -> None:
    assert in_spark(kind, *map(pd.Series, results)) == wanted


@pytest.mark.parametrize(
    ("kind", "results", "wanted"),
    [
        (DateType(), [[NOON], [NOON.date(), None]], [NOON.date(), NOON.date(), None]),
        (DecimalType(9, 2), [[Decimal("1.5"), None], [1.5]], [Decimal("1.50"), None, Exception]),
        (LongType(), [pd.Series([2**53 + 1, None], dtype="Int64"), [1]], [2**53 + 1, None, 1]),
        (IntegerType(), [[1.0, None], [True], [1.5]], [1, None, 1, Exception]),
        (BooleanType(), [[True, None], [1]], [True, None, True]),
        (DoubleType(), [[1.5, float("nan")], [1]], [1.5, None, 1.0]),
        (StringType(), [["a", None], pd.Series(["b"], dtype="category")], ["a", None, "b"]),
        (ArrayType(StringType()), [[["a"], float("nan")], [1]], [["a"], None, Exception]),
        (
            MapType(StringType(), LongType()),
            [[{"a": 1}, None], [[("a", 1)]]],
            [[("a", 1)], None, Exception],
        ),
        (TimestampNTZType(), [pd.Series([10**12]).astype("M8[s]")], [Exception]),
    ],
)
def test_spark_takes_whatever_parts_of_a_pandas_result_have_passed(
    kind: DataType, results: list[Any], wanted: list[Any]
) -> None:
    assert in_spark(kind, *map(pd.Series, results)) == wanted


@pytest.mark.parametrize("make", [_of_rows, _of_series])
def test_a_guarded_function_runs_where_the_package_is_not_installed(make: Any) -> None:
    def fail(_: object) -> str:
        raise KeyError("k")

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    pickled = base64.b64encode(dumps(make(fail, StringType(), Exception))).decode()
    program = f"""
import base64, sys
sys.modules["eoskafka"] = None
import pandas as pd
from pyspark import cloudpickle
run = cloudpickle.loads(base64.b64decode("{pickled}"))
result = run(pd.Series(["a"]))
print(result[1] if isinstance(result, tuple) else result["error"][0])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "KeyError: 'k'\n", done.stderr


def test_a_decorated_function_keeps_its_name_and_itself() -> None:
    @guard("string")
    def clean(value: str) -> str:
        """Says what it does."""
        return value.upper()

    assert (clean.__name__, clean.__doc__) == ("clean", "Says what it does.")
    assert clean.__wrapped__("a") == "A"  # type: ignore[attr-defined]


def test_a_reason_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "[red] a\nline\x1b[2J é"
    letter = DeadLetter("dead", 1, 2, 0, reason, "", "in", 3, 4, 5, None)
    print_table(_table([letter]))
    (_, line) = capsys.readouterr().out.splitlines()
    assert line.split() == [
        *("1970-01-01", "00:00:00Z", "dead-1,", "2", "in-3,", "4", "-", "-"),
        *("[red]", "a\\nline\\x1b[2J", "é"),
    ]


@pytest.mark.parametrize(
    "headers",
    [None, [], [("other", b"x")], [(f"{PREFIX}partition", b"-1"), (f"{PREFIX}offset", None)]],
)
def test_headers_that_are_no_dead_letters_say_nothing(headers: Any) -> None:
    origin = Origin.of(headers)
    assert (origin.topic, origin.partition, origin.offset) == ("", -1, -1)
