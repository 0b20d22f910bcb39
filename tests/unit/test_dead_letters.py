"""Guarded functions, as executors run them; what needs a session is in the integration tests."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from eoskafka import guard
from eoskafka.cli.dead_letters import _table
from eoskafka.cli.output import print_table
from eoskafka.dead_letters import PREFIX, Origin, _of_rows, _of_series
from eoskafka.replay import DeadLetter
from pyspark import cloudpickle
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
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
    ],
    ids=repr,
)
def test_a_result_of_another_type_is_an_error(kind: DataType, value: object) -> None:
    result, error = run(lambda: value, kind=kind)
    assert result is None
    assert error is not None


def test_what_is_not_caught_and_no_memory_is_raised() -> None:
    def fail(with_: Exception) -> None:
        raise with_

    guarded = _of_rows(fail, StringType(), (KeyError, ValueError))
    assert guarded(KeyError("k")) == (None, "KeyError: 'k'")
    with pytest.raises(ConnectionError):
        guarded(ConnectionError())
    with pytest.raises(MemoryError):
        run(fail, MemoryError())
    with pytest.raises(MemoryError):
        _of_series(lambda _: fail(MemoryError()), StringType(), Exception)(pd.Series(["a"]))


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


def test_an_empty_batch_has_no_rows() -> None:
    found = _of_series(lambda s: s / 0, StringType(), Exception)(pd.Series([], dtype=object))
    assert len(found) == 0


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
