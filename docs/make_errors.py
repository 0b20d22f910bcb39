"""Makes errors.md from the table of error conditions: `make docs`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from eoskafka import _spec, errors

TARGET = Path(__file__).with_name("errors.md")

_HEAD = """\
# Errors

Made from `python/eoskafka/spec/errors.json` by `make docs`; do not edit.

Every error of the connector has a condition, which its message begins with in brackets, and a class
in Python. In a driver that has called `eoskafka.configure`, or imported `eoskafka` after pyspark,
pyspark raises it as that class too:

```python
import eoskafka

try:
    query.awaitTermination()
except eoskafka.FencedError as error:
    print(error.condition)  # EOSKAFKA_FENCED_BY_DRIVER: another driver has taken over
except eoskafka.UnreachableError:
    ...  # start it again later
```

It stays a `StreamingQueryException` for every other handler. Where neither was done,
`eoskafka.failures.install()` does it, and `eoskafka.error_of(query.exception())` gives the error of
a query that has ended. All are `eoskafka.EosKafkaError`.
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
        parts.append(f"\n## {name}\n\n{getattr(errors, name).__doc__}\n")
        parts += [
            f"\n**`{condition}`** {_escaped(message)}\n" for condition, message in by_class[name]
        ]
    return "".join(parts)


def _escaped(message: str) -> str:
    """Placeholders as emphasis, and nothing that Markdown would take for its own."""
    escaped = re.sub(r"([*_`\\])", r"\\\1", message)
    return re.sub(r"<([a-zA-Z]+)>", r"*\1*", escaped)
