"""Makes errors.md from the table of error conditions: `make docs`."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from pathlib import Path

from eoskafka import _spec, errors

TARGET = Path(__file__).with_name("errors.md")

_HEAD = """\
# Errors

Made from `python/eoskafka/spec/errors.json` by `make docs`; do not edit.

Each error message of the connector begins with its condition, in brackets. Each condition belongs to a class
in Python. pyspark raises the error as that class if the driver's program has called `eoskafka.configure`, or has
imported `eoskafka` after pyspark. Any other program must first call `eoskafka.failures.install()`.

```python
import eoskafka

try:
    query.awaitTermination()
except eoskafka.FencedError as error:
    print(error.condition)  # EOSKAFKA_FENCED_BY_DRIVER: another driver has taken over
except eoskafka.UnreachableError:
    ...  # start it again later
```

The error is still a `StreamingQueryException` for other handlers, and every class is an `eoskafka.EosKafkaError`.
`eoskafka.error_of(query.exception())` returns the error of a query that has ended.

Words in italics stand for text that the message has in their place. *cause* is a whole sentence. *owner* is whoever
writes: the query's sink, a write of `foreachBatch`, or a batch job; in messages about a consumer group, *owner* is the
group's members.
"""


def text() -> str:
    """The whole page."""
    by_class = defaultdict(list)
    for name, entry in _spec.conditions().items():
        by_class[entry["error"]].append((name, entry["message"]))
    parts = [_HEAD]
    for name in re.findall(r"[├└]── (\w+)", errors.__doc__ or ""):
        if name not in by_class:
            continue
        parts.append(f"\n## {name}\n\n{inspect.getdoc(getattr(errors, name))}\n")
        parts += [
            f"\n**`{condition}`** {_escaped(message)}\n" for condition, message in by_class[name]
        ]
    return "".join(parts)


def _escaped(message: str) -> str:
    """Placeholders as emphasis, and nothing that Markdown would take for its own."""
    escaped = re.sub(r"([*_`\\])", r"\\\1", message)
    return re.sub(r"<([a-zA-Z]+)>", r"*\1*", escaped)
