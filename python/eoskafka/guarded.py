"""User-defined functions that return an error instead of raising it.

A function that raises fails its task, and so its query. One that is decorated with `guard` returns
the error as a column, of which `eoskafka.with_dead_letters` makes a dead letter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eoskafka.dead_letters import REASON_LIMIT

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def guard(
    returns: DataType | str,
    *,
    catch: type[Exception] | tuple[type[Exception], ...] = Exception,
    pandas: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Column]]:
    """Make a user-defined function that returns an error instead of raising it.

    The decorated function is called with columns, as one of `pyspark.sql.functions.udf` is. Its
    result is a struct with two fields: `value`, what the function has returned, and `error`, which
    is null if it has returned, and otherwise the class and the message of its exception (at most
    1,000 characters). A result that is not of the type `returns` is an error too. Give `error` to
    `with_dead_letters`. The function itself is the attribute `__wrapped__`. For example::

        @eoskafka.guard("string")
        def name(value: bytes) -> str:
            return json.loads(value)["name"]

        payments.withColumn("name", name("value"))

    Args:
        returns: the type of the function's result, as a type of pyspark or as DDL.
        catch: the exceptions that mean that the row is wrong. Any other one fails the task, which
            Spark retries. Name them if the function can also fail for other reasons, such as a
            service that does not answer. MemoryError and ImportError are never caught: they are
            about the executor, not about the row.
        pandas: whether the function takes and returns `pandas.Series`. If it raises, it is called
            again with parts of its rows, down to single ones; so each result must depend on its own
            row only. Timestamps have the same meaning as in a result of `pandas_udf`: datetime64
            values without a time zone are in the session's time zone.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Column]:
        @functools.wraps(function)
        def apply(*columns: Column | str) -> Column:
            # Not earlier: a type in DDL is parsed by a session.
            from pyspark.sql import functions, types

            kind = returns
            if isinstance(kind, str):
                kind = functions.udf(lambda: None, kind).returnType
            result = types.StructType(
                [
                    types.StructField("value", kind),
                    types.StructField("error", types.StringType()),
                ]
            )
            make: Any = functions.pandas_udf if pandas else functions.udf
            run = (_of_series if pandas else _of_rows)(function, kind, catch)
            run.__name__ = getattr(function, "__name__", "guarded")
            # Only the plan knows the session's time zone; an executor is not told it otherwise.
            zone = [functions.expr("current_timezone()")] if pandas and _has_timestamp(kind) else []
            made: Column = make(run, result)(*columns, *zone)
            return made

        return apply

    return decorate


def _has_timestamp(returns: DataType) -> bool:
    """Whether a time zone may matter: also true of types and fields that only sound like it."""
    return "timestamp" in returns.json()


# The functions that these two return run on executors, which may not have this package. They are
# pickled by value, and refer to nothing of this module.


def _of_rows(
    function: Callable[..., Any], returns: DataType, catch: Any, limit: int = REASON_LIMIT
) -> Callable[..., tuple[Any, str | None]]:
    describe, check = _describer(limit), _checker()
    cache: list[Callable[[Any], None]] = []

    def run(*arguments: Any) -> tuple[Any, str | None]:
        try:
            value = function(*arguments)
            if not cache:
                from pyspark.sql.types import _make_type_verifier

                cache.append(_make_type_verifier(returns))
            # Spark makes null of a value of another type, or fails.
            cache[0](value)
            check(returns, value)
            return value, None
        except (MemoryError, ImportError):
            raise
        except catch as error:
            return None, describe(error)

    return run


def _checker() -> Callable[[DataType, Any], None]:
    """A check for results that pass Spark's own check, but that Spark then alters or fails on.

    Spark converts a result after the function has returned, when an error would fail the task.
    """

    def check(kind: Any, value: Any) -> None:
        from decimal import Context, Decimal

        from pyspark.sql import types

        if value is None:
            return
        if isinstance(kind, (types.StringType, types.CharType, types.VarcharType)):
            # Spark would take anything for a string.
            if not isinstance(value, str):
                raise TypeError(f"the result is not a str but {type(value).__name__}")
            value.encode()
        elif isinstance(kind, types.DecimalType):
            # Spark rounds to the scale. The least number that it could round up to another digit:
            least = Context(prec=80).subtract(
                Decimal((0, (1,), kind.precision - kind.scale)), Decimal((0, (5,), -kind.scale - 1))
            )
            # (abs() would round it to the context's 28 digits.)
            if not value.is_finite() or value.copy_abs() >= least:
                raise ValueError(f"the result {value} has no place in {kind.simpleString()}")
        elif isinstance(kind, types.ArrayType):
            for each in value:
                check(kind.elementType, each)
        elif isinstance(kind, types.MapType):
            for key, each in value.items():
                check(kind.keyType, key)
                check(kind.valueType, each)
        elif isinstance(kind, types.StructType):
            if isinstance(value, (tuple, list)):
                of = dict(zip(kind.names, value, strict=True))
            else:
                of = value if isinstance(value, dict) else vars(value)
            for field in kind.fields:
                check(field.dataType, of.get(field.name))
        elif kind.needConversion() and not isinstance(kind, types.UserDefinedType):
            # A date, a time, or an interval.
            internal = kind.toInternal(value)
            if not -(2**63) <= internal < 2**63:
                raise OverflowError(f"the result {value} has no place in {kind.simpleString()}")

    return check


def _of_series(
    function: Callable[..., Any], returns: DataType, catch: Any, limit: int = REASON_LIMIT
) -> Callable[..., Any]:
    """A function of columns; if the result has timestamps, the last one is the time zone."""
    import pandas as pd

    describe = _describer(limit)
    has_zone = _has_timestamp(returns)

    def run(*columns: Any) -> Any:
        import inspect

        import pyarrow as pa
        from pyspark.sql.pandas.types import _create_converter_from_pandas, to_arrow_type

        zone = "UTC"
        if has_zone:
            columns, zones = columns[:-1], columns[-1]
            zone = zones.iloc[0] if len(zones) else zone
            # One that pandas does not know fails the task here, and makes no row an error.
            pd.Timestamp(0, tz=zone)
        # Spark 4.2 and later ask for a time zone; the values are the same in any.
        parameters = inspect.signature(to_arrow_type).parameters
        utc: Any = {"timezone": "UTC"} if "timezone" in parameters else {}
        kind = to_arrow_type(returns, **utc)
        convert = _create_converter_from_pandas(
            returns, timezone=zone, error_on_duplicated_field_names=False
        )

        def attempt(start: int, end: int) -> tuple[list[Any], list[str | None]]:
            try:
                made = function(*(c.iloc[start:end].reset_index(drop=True) for c in columns))
                if not isinstance(made, pd.Series) or len(made) != end - start:
                    raise TypeError(f"the result is not a Series of {end - start} rows")
                if pa.types.is_nested(kind):
                    # In place of a list, a dictionary or a struct, Spark fails on NaN.
                    made = made.astype(object).where(made.notna(), None)
                # As Spark does afterwards, where an error would fail the task.
                array = pa.Array.from_pandas(made, type=kind)
                converted = convert(made)
                if converted is not made:
                    array = pa.Array.from_pandas(converted, type=kind)
                # Spark applies the session's time zone to timestamps without one only in a Series
                # of datetime64. A Series of several parts may not be one, so these get a time zone.
                values = list(made) if pa.types.is_nested(kind) else array.to_pylist()
                return values, [None] * (end - start)
            except (MemoryError, ImportError):
                raise
            except catch as error:
                if end - start <= 1:
                    return [None] * (end - start), [describe(error)] * (end - start)
                middle = (start + end) // 2
                left, right = attempt(start, middle), attempt(middle, end)
                return left[0] + right[0], left[1] + right[1]

        values, errors = attempt(0, len(columns[0]))
        return pd.DataFrame(
            {"value": pd.Series(values, dtype=object), "error": pd.Series(errors, dtype=object)}
        )

    # By these Spark knows what kind of function it is.
    run.__annotations__ = {"columns": pd.Series, "return": pd.DataFrame}
    return run


def _describer(limit: int) -> Callable[[BaseException], str]:
    def describe(error: BaseException) -> str:
        import re

        try:
            message = str(error)
        except Exception:
            message = "its message cannot be shown"
        # The same in each run: an epoch that is written again must have the same rows.
        message = re.sub(r" at 0x[0-9a-fA-F]+", "", message)
        text = f"{type(error).__name__}: {message}"[:limit]
        return text.encode("utf-8", "replace").decode()

    return describe
