"""What the decision topic says about one query, read as the connector reads it.

Every executor of a team may write to the topic, so no entry is trusted unchecked
(`io.eoskafka.decision.DecisionEntries`, `Decision` and `Entry` have the same rules).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from eoskafka import _json
from eoskafka.errors import TransactionError

_VERSION = 1
# Of a decision whose sources are in several parts.
_SOURCES_IN_PARTS = 2
_MAX_INT = 2**31 - 1
_MAX_SHORT = 2**15 - 1
_MAX_LONG = 2**63 - 1
_MAX_NUMBER = 10**18 - 1
# As a driver writes them: another form would be another key for compaction.
_PART = re.compile(r"0|[1-9][0-9]{0,5}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,8}")


class Run(NamedTuple):
    """The last run of a query.

    Attributes:
        number: the run's.
        decision_id: the transactional id that has claimed it.
    """

    number: int
    decision_id: str


class Decision(NamedTuple):
    """A query's last decision.

    Attributes:
        run: the number of the run that has made it.
        epoch: the one that was decided.
        transactions: those that take effect: transactional id, producer's id and epoch.
    """

    run: int
    epoch: int
    transactions: frozenset[tuple[str, int, int]]


class Entries:
    """A query's entries in one partition, taken in the order of the log.

    They are interpreted only after all were taken: entries that were replaced or removed since do
    not count, as in a compacted log.
    """

    def __init__(self, topic: str, query_id: str) -> None:
        self._topic = topic
        self._query_id = query_id
        self._run_key = f"run:{query_id}"
        self._decision_key = f"decision:{query_id}:"
        self._run: str | None = None
        self._parts: dict[int, str] = {}
        self._strange_keys: set[str] = set()

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record; those of other queries change nothing."""
        name = (key or b"").decode("utf-8", "replace")
        text = None if value is None else value.decode("utf-8", "replace")
        if name == self._run_key:
            self._run = text
        elif name.startswith(self._decision_key):
            self._take_part(name, text)

    def _take_part(self, key: str, text: str | None) -> None:
        number = key[len(self._decision_key) :]
        if not _PART.fullmatch(number):
            (self._strange_keys.discard if text is None else self._strange_keys.add)(key)
        elif text is None:
            self._parts.pop(int(number), None)
        else:
            if number == "0":
                self._parts.clear()  # those of a former decision
            self._parts[int(number)] = text

    def run(self) -> Run | None:
        """The last run, or None if there is no entry of the query.

        Raises:
            TransactionError: the entry is none that a driver of this version writes.
        """
        if self._run is None:
            return None
        try:
            node = _parse(self._run)
            version = _number(node, "version", 0, _MAX_INT)
            if version != _VERSION:
                raise ValueError(f"its version is {version}")
            return Run(_number(node, "run", 1, _MAX_NUMBER), _text(node, "decisionId"))
        except ValueError as error:
            raise self._unreadable(self._run_key, error) from error

    def last(self, prefix: str, partitions: int) -> Decision | None:
        """The last decision, or None if there is none.

        Args:
            prefix: of the query's transactional ids.
            partitions: of the decision topic.

        Raises:
            TransactionError: no driver of the query can have written it.
        """
        if self._strange_keys:
            raise self._unreadable(
                min(self._strange_keys), ValueError("it is no part of a decision")
            )
        if 0 not in self._parts:
            # Any others are left of a former decision that was a longer one.
            return None
        run = self.run()
        try:
            parts = [_parse(self._parts[number]) for number in sorted(self._parts)]
            return _decision(
                parts, f"{prefix}-{self._query_id}-w", run.number if run else 0, partitions
            )
        except ValueError as error:
            raise self._unreadable(f"{self._decision_key}0", error) from error

    def _unreadable(self, key: str, problem: ValueError) -> TransactionError:
        return TransactionError(
            f"the entry '{key}' of {self._topic} is none that a driver of this version writes "
            f"({problem}), so it is not known whether the last epoch of its query is decided. No "
            "transaction was ended. Find out who else writes to this topic, or use the version "
            "that wrote the entry"
        )


def _decision(parts: list[Any], own: str, last_run: int, partitions: int) -> Decision:
    run = _number(parts[0], "run", 1, last_run)
    epoch = _number(parts[0], "epoch", 0, _MAX_NUMBER)
    if "previous" in parts[0]:
        _number(parts[0], "previous", -1, _MAX_NUMBER)
    version = _number(parts[0], "version", _VERSION, _SOURCES_IN_PARTS)
    outputs: list[Any] = []
    for number, node in enumerate(parts):
        if (
            _number(node, "version", 0, _MAX_INT),
            _number(node, "part", 0, _MAX_INT),
            _number(node, "parts", 1, _MAX_INT),
            _number(node, "run", 1, _MAX_NUMBER),
            _number(node, "epoch", 0, _MAX_NUMBER),
        ) != (version, number, len(parts), run, epoch):
            raise ValueError(f"part {number} of {len(parts)} does not belong to the others")
        outputs += _of_type(node, "outputs", list)
        if number == 0 or (version == _SOURCES_IN_PARTS and "sources" in node):
            for source in _of_type(node, "sources", dict).values():
                _check_source(source)
    plan = _of_type(parts[0], "plan", dict)
    _text(plan, "before")
    _text(plan, "of")
    writers = [_number(output, "writer", 0, _MAX_INT) for output in outputs]
    if len(writers) > len(set(writers)):
        raise ValueError("a writer is in it twice")
    found = [_transaction(output, own, run, partitions) for output in outputs]
    return Decision(run, epoch, frozenset(each for each in found if each is not None))


def _check_source(source: Any) -> None:
    _number(source, "slots", 0, _MAX_INT)
    if "split" in source:
        _number(source["split"], "minPartitions", 0, _MAX_INT)
        _number(source["split"], "maxRecords", 0, _MAX_LONG)
    for topics in (_of_type(source, "starts", dict), _of_type(source, "ends", dict)):
        for topic in topics:
            offsets = _of_type(topics, topic, dict)
            for partition in offsets:
                if not _PARTITION.fullmatch(partition):
                    raise ValueError(f"{partition!r} is no partition")
                _number(offsets, partition, 0, _MAX_LONG)


def _transaction(
    output: dict[str, Any], own: str, run: int, partitions: int
) -> tuple[str, int, int] | None:
    """A writer's transaction, which has to be its own; None if the writer had no rows."""
    _number(output, "rows", 0, _MAX_LONG)
    _number(output, "digest", -_MAX_LONG - 1, _MAX_LONG)
    if "id" not in output:
        return None
    found = _text(output, "id")
    _of_type(output, "version2", bool)
    _number(output, "markerOffset", 0, _MAX_LONG - 1)
    form = (
        re.escape(own)
        + rf"([0-9]{{1,18}})\.[0-9]+\.{output['writer']}(?:\.[0-9]+\.[0-9]+\.[0-9]+)?"
    )
    match = re.fullmatch(form, found)
    if match is None or int(match[1]) > run:
        raise ValueError(f"{found!r} is no transactional id of its writer {output['writer']}")
    if _number(output, "markerPartition", 0, partitions - 1) % 2 != 1:
        raise ValueError(f"partition {output['markerPartition']} holds no presence records")
    return (
        found,
        _number(output, "producerId", 0, _MAX_LONG),
        _number(output, "producerEpoch", 0, _MAX_SHORT),
    )


def _parse(text: str) -> Any:
    node = _json.parse(text)
    if not isinstance(node, dict):
        raise ValueError("it is no JSON object")
    return node


def _number(node: Any, name: str, least: int, most: int) -> int:
    value = node.get(name) if isinstance(node, dict) else None
    # A bool is an int too.
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is no number from {least} to {most}")
    return value


def _text(node: Any, name: str) -> str:
    found: str = _of_type(node, name, str)
    return found


def _of_type(node: Any, name: str, kind: type) -> Any:
    value = node.get(name) if isinstance(node, dict) else None
    if not isinstance(value, kind):
        raise ValueError(f"{name} is no {kind.__name__}")
    return value
