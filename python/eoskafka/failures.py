"""The connector's errors in what pyspark raises.

An error of the connector reaches Python as one of pyspark's exceptions, with the connector's
message somewhere in its text. `install` lets such an exception be one of `eoskafka.errors` too, so
that `except eoskafka.FencedError` catches it; it stays what it was for every other handler.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

from eoskafka import _spec, errors

# The start of a message. In a plan, such as one with `raise_error`, a condition is an argument.
_CONDITION = re.compile(r"(?:^|: |\) |\] )\[(EOSKAFKA_[A-Z_]+)\] ", re.MULTILINE)
# A query's plan, and what may follow it.
_PLAN = re.compile(r"=== Streaming Query ===.*?(?=^JVM stacktrace:|\Z)", re.DOTALL | re.MULTILINE)


def error_of(failure: BaseException | None) -> errors.EosKafkaError | None:
    """The connector's error in what Spark has raised, or in `StreamingQuery.exception()`.

    Args:
        failure: an exception, or None.

    Returns:
        an error with the connector's message and its condition; None if the failure is not the
        connector's.
    """
    found = None if failure is None else message_in(str(failure))
    if found is None:
        return None
    condition, message = found
    return class_of(condition)(message, condition)


def message_in(text: str) -> tuple[str, str] | None:
    """The condition and the message of the connector's error in the text of Spark's; or None."""
    own = _PLAN.sub("", text)
    found = _CONDITION.search(own)
    if found is None or found[1] not in _spec.conditions():
        return None
    return found[1], own[found.start(1) - 1 :].partition("\n")[0]


def install() -> None:
    """Let pyspark raise the connector's errors as errors of this package too.

    `eoskafka.configure` and `eoskafka.check` call this, and so does `import eoskafka` if pyspark is
    already imported. A second call changes nothing.
    """
    from pyspark.errors.exceptions import captured

    # As delta-spark does it: pyspark has no other place for exceptions of data sources.
    _wrap(captured, captured.CapturedException, captured.UnknownException)
    # Of Spark Connect, where it is used: it needs packages that a classic session does not.
    if (client := sys.modules.get("pyspark.sql.connect.client.core")) is not None:
        _wrap(client)


def _wrap(module: Any, known: type[Any] | None = None, unknown: type[Any] | None = None) -> None:
    """Replace a module's `convert_exception`.

    Args:
        module: the module that has it.
        known: the class to use for an exception that pyspark would leave to py4j.
        unknown: the class that such an exception has.
    """
    original = module.convert_exception
    if getattr(original, "is_eoskafkas", False):
        return

    def convert(*raised: Any, **how: Any) -> BaseException:
        converted: BaseException = original(*raised, **how)
        error = error_of(converted)
        # Whoever wraps this function, as delta-spark does, hides that it is there already.
        if error is not None and not isinstance(converted, errors.EosKafkaError):
            kind: Any = type(converted)
            if unknown is not None and isinstance(converted, unknown):
                kind = known
            both: Any = (type(error), kind)
            converted.__class__ = _both(*both)
            converted.condition = error.condition  # type: ignore[attr-defined]
        return converted

    convert.is_eoskafkas = True  # type: ignore[attr-defined]
    module.convert_exception = convert


@cache
def _both(*both: Any) -> Any:
    """A class of its own for each pair of classes."""
    return type(both[1].__name__, both, {"__module__": both[1].__module__})


def class_of(condition: str) -> type[errors.EosKafkaError]:
    """The class of a condition's errors."""
    found = getattr(errors, _spec.conditions()[condition]["error"])
    assert issubclass(found, errors.EosKafkaError)
    return found  # type: ignore[no-any-return]
