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

Each error message of the connector begins with its error condition in brackets. Each condition belongs to a Python
exception class. pyspark raises this class if the driver program has called `eoskafka.configure`, or has imported
`eoskafka` after pyspark. Any other program must first call `eoskafka.failures.install()`.

```python
import eoskafka

try:
    query.awaitTermination()
except eoskafka.FencedError as error:
    print(error.condition)  # EOSKAFKA_FENCED_BY_DRIVER: another driver has taken over
except eoskafka.UnreachableError:
    ...  # start it again later
```

Handlers for `StreamingQueryException` still catch the error, and every class is a subclass of
`eoskafka.EosKafkaError`. `eoskafka.error_of(query.exception())` returns the error of a query that has ended.

Words in italics are placeholders for values in the actual message. *cause* is a complete sentence. *owner* is the
writer: the query's sink, a write in `foreachBatch`, or a batch job. In messages about a consumer group, *owner*
stands for the group's members.
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
    """Placeholders as emphasis, with all Markdown syntax in the text escaped."""
    escaped = re.sub(r"([*_`\\])", r"\\\1", message)
    return re.sub(r"<([a-zA-Z]+)>", r"*\1*", escaped)
