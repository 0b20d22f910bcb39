"""What a start has left, in a form that is the same whenever and wherever it happens."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from eoskafka.audit import Record, compare, read_committed
from eoskafka.audit.compare import FAULTS
from eoskafka.failures import error_of
from harness import Flow, until
from harness.flow import SETTLE_S
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

DECISIONS = "__eoskafka_decisions"
FINISHED = "finished"

# Spark's error conditions, in the order in which an error names them: the outermost comes first.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_PLACE = re.compile(r"\S*/\S*")

# JSON values only.
Outcome = dict[str, Any]
# By partition of the decision topic: where a cell's entries begin.
Marks = Mapping[int, int]


def end_of(error: BaseException | str | None) -> str:
    """How a run has ended: `finished`, or its error condition."""
    if error is None:
        return FINISHED
    text = str(error)
    ours = error_of(RuntimeError(text))
    if ours is not None:
        return ours.condition or "an error of the connector"
    conditions = [name for name in _CONDITION.findall(text) if name != "STREAM_FAILED"]
    if conditions:
        return str(conditions[-1])
    return re.sub(r"\d+", "N", _PLACE.sub("", text.partition("\n")[0]))[-80:].strip()


def of_output(
    inputs: Iterable[Record],
    outputs: Iterable[Record],
    expected: Callable[[Record], bytes | None],
) -> Outcome:
    """Inputs against outputs: how often keys came out, and the records that are wrong."""
    wanted = list(inputs)
    found = list(outputs)
    times = Counter(Counter(record.key for record in found).values())
    report = compare(wanted, found, expected)
    return {
        "inputs": len(wanted),
        "outputs": {f"{n}": count for n, count in sorted(times.items())},
        **{fault.value: count for fault, count in report.faults.items()},
    }


def of_group(flow: Flow) -> object:
    """`at the ends`, or how far each partition's committed offset is from its end."""
    committed = flow.committed()
    short = {
        f"{partition}": committed[partition] - end if partition in committed else None
        for partition, end in sorted(flow.ends().items())
        if committed.get(partition) != end
    }
    return short or "at the ends"


def of_transactions(flow: Flow) -> int:
    """How many transactions a start has left open.

    They are aborted, as their timeout would do it: what they hide can be judged then, and they do
    not hide what later cells write to topics that cells share.
    """
    try:
        until(lambda: not flow.open_transactions(), "their end", SETTLE_S)
    except TimeoutError:
        left = flow.open_transactions()
    else:
        return 0
    for name in left:
        with closing(
            KafkaProducer(bootstrap_servers=flow.sink_servers, transactional_id=name)
        ) as producer:
            producer.init_transactions()
    flow.assert_nothing_is_open()
    return len(left)


def marks(servers: str) -> Marks:
    """Where entries that come from now on will be in the decision topic."""
    ends: Counter[int] = Counter()
    for record in _decisions(servers):
        ends[record.partition] = record.offset + 1
    return ends


def of_decisions(servers: str, since: Marks) -> object:
    """Kinds of entries after `since`, and how many are left when the topic has been compacted."""
    latest: dict[bytes | None, bytes | None] = {}
    for record in _decisions(servers):
        if record.offset >= since.get(record.partition, 0):
            latest[record.key] = record.value
    kinds = (
        key.decode().partition(":")[0]
        for key, value in latest.items()
        if key is not None and value is not None
    )
    return dict(sorted(Counter(kinds).items()))


def _decisions(servers: str) -> list[Record]:
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        if DECISIONS not in admin.list_topics():
            return []
    return list(read_committed(servers, DECISIONS))


def in_files(folder: Path) -> list[Record]:
    """The records of a file sink's output, those files alone that its log names."""
    names: list[str] = []
    for batch in sorted((folder / "_spark_metadata").glob("[0-9]*")):
        _version, *entries = batch.read_text(encoding="utf-8").splitlines()
        names += [json.loads(entry)["path"].rpartition("/")[2] for entry in entries]
    records: list[Record] = []
    for name in names:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            records.append(Record(0, len(records), b64decode(row["key"]), row["value"].encode()))
    return records


def in_words(outcome: Outcome) -> str:
    """An outcome on one line."""
    times = outcome["outputs"]
    parts = [f"{outcome['end']}", f"{times.get('1', 0)} of {outcome['inputs']} once"]
    parts += [f"{count} keys {n} times" for n, count in times.items() if n != "1"]
    wrong = [fault.value for fault in FAULTS]
    parts += [f"{outcome[name]} {name}" for name in wrong if outcome[name]]
    if "group" in outcome:
        parts.append(f"group {outcome['group']}")
    parts.append(f"{outcome['open']} open")
    parts.append(", ".join(f"{kind} {n}" for kind, n in outcome["decisions"].items()))
    return "; ".join(filter(None, parts))
