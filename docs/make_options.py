"""Makes options.md from the table of options: `make docs`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from eoskafka import Sink, Source, _spec
from eoskafka.options.names import option_name
from eoskafka.options.rules import KINDS

TARGET = Path(__file__).with_name("options.md")

_HEAD = """\
# Options

Made from `python/eoskafka/spec/options.json` by `make docs`; do not edit.

This page lists every option of `format("eoskafka")`. Option names are not case-sensitive. A misspelt option, a source
option on a sink, or a sink option on a source causes an error before anything is read or written. The only exception
is `includeHeaders`, which a sink accepts and ignores. [builtin.md](builtin.md) describes how an option differs from
the same option of `format("kafka")`.

Every other option that begins with `kafka.` is passed to the Kafka client:
`.option("kafka.security.protocol", "SASL_SSL")`.

In Python, the options are typed, and they are checked before Spark starts:

```python
from eoskafka import Sink, Source

payments = Source(bootstrap_servers="broker:9092", subscribe="payments", slots=4)
clean = Sink(bootstrap_servers="broker:9092", topic="payments-clean")
clean.stream(payments.stream(spark), checkpoint="/checkpoints/payments").start()
```

## What to set for which query

| what you have | what to set |
|---|---|
| a query without state, from topic to topic on one cluster | nothing: the query runs in [task scope](operations.md#task-scope-and-epoch-scope) |
| state, joins of streams, shuffles, other sources, or a sink on another cluster | nothing: the query runs in epoch scope. Each batch must be decided within the transaction timeout minus [`recoveryReserveMs`](#recoveryreservems) and a few seconds |
| records that are already in the topic | `startingOffsets=earliest`, before the first run |
| many unread records, or batches that take long | `maxOffsetsPerTrigger`, or `commitIntervalMs` in task scope |
| partitions with many more unread records than others | `maxOffsetsPerPartition` |
| records that must be visible within tenths of a second | `eoskafka.configure(..., real_time=True)` and `trigger(realTime="5 minutes")`, in task scope |
| a plan that must stay in task scope | `transactionScope=task`; the query then fails if a batch needs epoch scope |
| fewer partitions than cores | more partitions in the topic, or `minPartitions` (the query then runs in epoch scope) |
| several drivers, or a new version without a gap | `ownership=shared` and `kafka.group.id`, in task scope |
| rows that name their topics | `registerTopics`, so that a misspelt topic is refused |
| a batch job that may run again | `writeId` |
| several teams on one cluster | a `transactionalIdPrefix`, `groupIdPrefix` and `decisionTopic` for each team |
"""

_TAKES = {
    "text": "text",
    "topics": "topic names, separated by commas",
    "offsets": "JSON with offsets, or one of the words that are named above",
    "timestamps": "JSON with timestamps in milliseconds since 1970",
    "partitions": "JSON with partition numbers",
}
_CHAPTERS = {
    ("source", "sink"): "Source and sink",
    ("source",): "Source",
    ("sink",): "Sink",
}


def text() -> str:
    """The whole page."""
    table = _spec.read("options.json")["options"]
    parts = [_HEAD]
    for sides, title in _CHAPTERS.items():
        parts.append(f"\n## {title}\n")
        parts += [_section(o) for o in _available(table) if tuple(o["sides"]) == sides]
    parts.append(
        "\n## Refused options\n\nThe connector refuses these options, because it sets them itself or "
        "because they would break the guarantee.\n\n| option | side | instead |\n|---|---|---|\n"
    )
    parts += [
        f"| `{o['name']}` | {' and '.join(o['sides'])} | {o['instead']} |\n"
        for o in table
        if o["status"] == "refused"
    ]
    return "".join(parts)


def _available(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [option for option in table if option["status"] == "available"]


def _section(option: dict[str, Any]) -> str:
    name, default = option["name"], option["default"]
    fields = [
        f"{of.__name__}({field.name}=...)"
        for side, of in (("source", Source), ("sink", Sink))
        for field in dataclasses.fields(of)
        if side in option["sides"] and field.name != "kafka" and option_name(field.name) == name
    ]
    rows = [
        ("Applies to", option["scope"]),
        ("Values", _values(option["takes"])),
        ("Default", f"`{default}`" if " " not in default and default != "required" else default),
        ("Example", f"`{_example(name, option['example'])}`"),
    ]
    if fields:
        rows.append(("In Python", ", ".join(f"`{each}`" for each in fields)))
    lines = "".join(f"- {label}: {value}\n" for label, value in rows)
    return f"\n### `{name}`\n\n{option['description']}\n\n{lines}"


def _values(takes: str | list[str]) -> str:
    if isinstance(takes, list):
        return ", ".join(f"`{value}`" for value in takes)
    return _TAKES.get(takes) or KINDS[takes][1].replace('{"topic":[0,1]}', '`{"topic":[0,1]}`')


def _example(name: str, value: str) -> str:
    quote = "'" if '"' in value else '"'
    return f'.option("{name}", {quote}{value}{quote})'
