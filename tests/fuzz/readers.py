"""What has to hold for each reader, whatever its input: a value, or an error of eoskafka's tree.

Each function makes one input from a source of random numbers and raises AssertionError, or whatever
else the reader has let through, if it does not hold. It returns whether the input was read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from eoskafka import jobs, stamps
from eoskafka.checkpoints import Checkpoint, Identity
from eoskafka.decisions import Decision, Entries
from eoskafka.errors import CheckpointError, EosKafkaError, TransactionError
from eoskafka.stamps import Kind, Scope, Stamp
from eoskafka.transactions import Kind as Purpose
from eoskafka.transactions.model import kind_and_owner as purpose
from kafka import TopicPartition

from fuzz import given, inputs, registered
from fuzz.inputs import number

OWNER = stamps.digest("ours")
OTHER = stamps.digest("another's")
MAX_NUMBER = 10**18 - 1
MAX_LONG = 2**63 - 1

Reader = Callable[[Random], bool]


# ---- stamps


def _stamp(random: Random) -> Stamp:
    return Stamp(
        random.choice(list(Scope)),
        inputs.digest(random),
        inputs.digest(random)[random.randrange(22) :],
        random.choice(["-", inputs.digest(random)]),
        number(random, -1, MAX_NUMBER),
    )


def a_stamp(random: Random) -> bool:
    """Any metadata is a stamp or none, and a stamp is read as it was written."""
    valid = _stamp(random)
    text = stamps.encode(valid)
    assert stamps.parse(text) == valid
    kind = random.randrange(4)
    if kind == 0:
        text = inputs.noise(random)
    elif kind == 1:
        text = inputs.damaged(random, text)
    elif kind == 2:
        parts = text.split(":")
        values = ["", "0", "2", "01", "-0", "\u0661", "9" * 9, "9" * 20, "x", "T"]
        parts[random.randrange(len(parts))] = random.choice(values)
        text = ":".join(parts)
    found = stamps.parse(text)
    assert (found is not None) == (stamps.kind_of(text) is Kind.OURS)
    assert (stamps.kind_of(text) is Kind.NONE) == (not text.startswith("eoskafka:"))
    if found is not None:
        assert stamps.parse(stamps.encode(found)) == found
    return found is not None


# ---- transactional ids


def a_transactional_id(random: Random) -> bool:
    """A name has an owner if it begins with the prefix and ends as a name of ours does."""
    prefix = random.choice(["p", "p-job", "a\nb", "(x*"])
    identity = random.choice([OWNER, OTHER, inputs.digest(random)])
    digits = str(number(random, 0, 10**20))
    end = random.choice(
        [
            "-decisions",
            f"-{digits}",
            f"-w{digits}.0.1",
            f"-w1.0.{digits}.5.0.1",
            "-w\u0661.0.1",
            "-w1..1",
            "-w1" + ".1" * random.choice([1, 2, 15_000]),
        ]
    )
    name = f"{random.choice([prefix, f'{prefix}-{OTHER}', 'q', ''])}-{identity}{end}"
    if random.randrange(3) == 0:
        name = inputs.damaged(random, name)
    kind, owner = purpose(name, prefix)
    assert (kind is Purpose.OTHER) == (owner == "")
    if kind is Purpose.OTHER:
        return False
    assert name.startswith(f"{prefix}-")
    assert len(owner) == 22
    head, _, tail = name.rpartition(f"-{owner}-")
    assert head
    assert (kind is Purpose.TASK) == (tail.isascii() and tail.isdecimal())
    assert tail == "decisions" or tail[-1] in "0123456789"
    return True


# ---- the decision topic


class Log(NamedTuple):
    """Entries of the decision topic, in the order of the log."""

    prefix: str
    partitions: int
    entries: list[tuple[str, str | None]]

    def read(self) -> Entries:
        found = Entries("decisions", OWNER)
        for key, value in self.entries:
            found.take(key.encode(), None if value is None else value.encode())
        return found


def _transaction(random: Random, prefix: str, run: int, epoch: int, writer: int) -> dict[str, Any]:
    attempt = f".{epoch}.0.{random.randint(0, 2)}" if random.random() < 0.5 else ""
    own_run = number(random, 1, run)
    return {
        "id": f"{prefix}-{OWNER}-w{own_run}.{random.randrange(3)}.{writer}{attempt}",
        "producerId": number(random, 0, MAX_LONG),
        "producerEpoch": number(random, 0, 2**15 - 1),
        "version2": random.random() < 0.5,
    }


def _source(random: Random) -> dict[str, Any]:
    def offsets() -> dict[str, dict[str, int]]:
        topics = random.sample(["t", "a.topic", "0", "-_."], random.randrange(3))
        return {
            topic: {str(random.randrange(1_000)): number(random, 0, MAX_LONG)} for topic in topics
        }

    found: dict[str, Any] = {"slots": number(random, 0, 2**31 - 1)}
    if random.random() < 0.5:
        found["split"] = {"minPartitions": random.randrange(9), "maxRecords": random.randrange(9)}
    return {**found, "starts": offsets(), "ends": offsets()}


def _decision(random: Random, prefix: str, last_run: int, partitions: int) -> list[dict[str, Any]]:
    """A decision's parts."""
    run = number(random, 1, last_run)
    epoch = number(random, 0, MAX_NUMBER)
    outputs: list[dict[str, Any]] = []
    for writer in range(random.randrange(5)):
        output = {
            "writer": writer,
            "rows": number(random, 0, MAX_LONG),
            "digest": number(random, -MAX_LONG - 1, MAX_LONG),
        }
        if random.randrange(4):
            output |= _transaction(random, prefix, run, epoch, writer)
            output["markerPartition"] = 1 + 2 * random.randrange(partitions // 2)
            output["markerOffset"] = number(random, 0, MAX_LONG - 1)
        outputs.append(output)
    count = max(1, random.randrange(5) - 1)
    parts = [
        {
            **{"version": 1, "run": run, "epoch": epoch, "part": part, "parts": count},
            "outputs": outputs[part::count],
        }
        for part in range(count)
    ]
    plan = {"before": inputs.digest(random), "of": inputs.digest(random)}
    sources = {inputs.digest(random): _source(random) for _ in range(random.randrange(3))}
    parts[0] |= {"plan": plan, "sources": sources}
    return parts


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _run_entry(prefix: str, run: int) -> tuple[str, str | None]:
    entry = {"version": 1, "run": run, "decisionId": f"{prefix}-{OWNER}-decisions"}
    return f"run:{OWNER}", _json(entry)


def _damage(random: Random, entries: list[tuple[str, str | None]]) -> None:
    at = random.randrange(len(entries))
    key, value = entries[at]
    kind = random.randrange(7)
    if kind == 0:
        entries.append((key, None))
    elif kind == 1:
        entries.insert(random.randint(0, len(entries)), entries[at])
    elif kind == 2:
        ends = ["00", "-1", "x:0", "", "\u0663", "0", "1", "2"]
        entries.append((f"decision:{OWNER}:{random.choice(ends)}", value))
    elif kind == 3:
        entries.append((inputs.damaged(random, key), value))
    elif kind == 4:
        del entries[at]
    else:
        entries[at] = (key, value and inputs.damaged_json(random, value))


def the_decision_topic(random: Random) -> bool:
    """A log is read, or refused by name; what is read of it is of the owner's own transactions.

    What a driver writes is read as it was written, and what was replaced or removed does not count.
    """
    prefix = random.choice(["p", "p-2", f"p-{OTHER}", "my.[x]*"])
    partitions = 2 * random.randint(1, 4)
    log = Log(prefix, partitions, [])
    run = number(random, 1, MAX_NUMBER)
    parts: list[dict[str, Any]] = []
    for _ in range(random.randint(1, 2)):
        run = number(random, 1, MAX_NUMBER)
        log.entries.append(_run_entry(prefix, run))
        parts = _decision(random, prefix, run, partitions)
        log.entries.extend((f"decision:{OWNER}:{n}", _json(p)) for n, p in enumerate(parts))
    found = log.read().last(prefix, partitions)
    assert found == Decision(
        parts[0]["run"],
        parts[0]["epoch"],
        frozenset(
            (output["id"], output["producerId"], output["producerEpoch"])
            for part in parts
            for output in part["outputs"]
            if "id" in output
        ),
    )
    for _ in range(random.randint(1, 2)):
        if log.entries:
            _damage(random, log.entries)
    last = {key: at for at, (key, _) in enumerate(log.entries)}
    compacted = log._replace(entries=[log.entries[at] for at in sorted(last.values())])
    result = _result(log)
    assert _result(compacted) == result
    if result is None or result[1] is None:
        return result is not None
    last_run, decision = result
    assert decision is not None
    assert 1 <= decision.run <= last_run
    for name, producer_id, producer_epoch in decision.transactions:
        own = f"{prefix}-{OWNER}-w"
        assert name.startswith(own)
        numbers = name[len(own) :].split(".")
        assert all(part.isascii() and part.isdecimal() for part in numbers)
        assert 0 <= int(numbers[0]) <= decision.run
        assert 0 <= producer_id <= MAX_LONG
        assert 0 <= producer_epoch < 2**15
    return True


def _result(log: Log) -> tuple[int, Decision | None] | None:
    found = log.read()
    try:
        run = found.run()
        return run.number if run else 0, found.last(log.prefix, log.partitions)
    except TransactionError:
        return None


# ---- checkpoints


class Files(Checkpoint):
    """A checkpoint in memory."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        super().__init__("/checkpoint")

    def _read(self, name: str) -> str | None:
        return self.files.get(name)

    def _names(self, folder: str) -> list[str]:
        return [name.rpartition("/")[2] for name in self.files if name.startswith(f"{folder}/")]


def a_checkpoints_identity(random: Random) -> bool:
    """The file that names whose a group's offsets are."""
    identity = Identity(
        f"group-{inputs.digest(random)}",
        f"eoskafka-{inputs.digest(random)}",
        inputs.digest(random),
        random.random() < 0.5,
    )
    file = {
        "version": 1,
        "group": identity.group,
        "instanceId": identity.instance_id,
        "checkpointId": identity.checkpoint_id,
        "shared": identity.shared,
    }
    files = Files({"sources/0/eoskafka-identity.json": _json(file)})
    assert files.identity() == identity
    text = inputs.damaged_json(random, _json(file))
    files.files["sources/0/eoskafka-identity.json"] = text
    try:
        found = files.identity()
    except CheckpointError:
        return False
    assert found is not None
    assert len(found.id) == 22
    return True


def offsets(random: Random) -> dict[str, dict[str, int]]:
    """As Spark's logs have them."""
    return {
        topic: {
            str(number(random, 0, 2**31 - 1)): number(random, -2, MAX_LONG)
            for _ in range(random.randint(1, 2))
        }
        for topic in random.sample(["t", "a.topic", "0", "-_."], random.randrange(3))
    }


def a_checkpoints_offsets(random: Random) -> bool:
    """Spark's own files, and the number of the batch that was taken over."""
    valid = offsets(random)
    log = f"v1\n{{}}\n{_json(valid)}{random.choice(['', ' '])}"
    names = ["sources/0/0", "offsets/0", "offsets/1", "offsets/\u00b2", "offsets/.1.crc"]
    files = Files({name: log for name in names if random.randrange(4)})
    files.files |= {name: "v1\n{}" for name in ("commits/0", "commits/1") if random.randrange(2)}
    if "sources/0/0" in files.files:
        files.files["sources/0/0"] = f"\0v1\n{_json(valid)}"
        expected = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in valid.items()
            for partition, offset in partitions.items()
        }
        assert files.starts() == expected
    files.files["sources/0/eoskafka-taken-over"] = inputs.noise(random)
    for name, text in files.files.items():
        if random.randrange(3) == 0:
            start, _, line = text.rpartition("\n")
            files.files[name] = random.choice(
                [inputs.damaged(random, text), f"{start}\n{inputs.damaged_json(random, line)}"]
            )
    try:
        starts = files.starts() or {}
        batch = files.last_batch()
    except CheckpointError:
        return False
    for found in (starts, batch.start or {} if batch else {}, batch.end if batch else {}):
        for partition, offset in found.items():
            assert 0 <= partition.partition < 2**31
            assert type(offset) is int
            assert -MAX_LONG - 1 <= offset <= MAX_LONG
    return True


# ---- answers of the program in the jar


def an_answer(random: Random) -> bool:
    """What `eoskafka txn resolve` is told, by whatever jar EOSKAFKA_JAR names."""
    write = {
        **{"outcome": "committed", "epoch": 3, "committed": 2, "lost": 0, "missing": ""},
        **{"forgotten": False, "accepted": False, "name": "a checkpoint"},
    }
    refused = {"name": "another", "condition": "EOSKAFKA_UNREACHABLE", "error": "no answer"}
    valid = random.choice([write, {"writes": [write, refused]}, refused])
    out = "a line before\n" + inputs.damaged_json(random, _json(valid)) + "\n"
    try:
        answer = jobs._answer(out, "", "it")
        read = jobs._writes if random.random() < 0.5 else jobs._resolution
        read(answer)
    except EosKafkaError:
        return False
    return True


ALL: tuple[Reader, ...] = (
    a_stamp,
    a_transactional_id,
    the_decision_topic,
    a_checkpoints_identity,
    a_checkpoints_offsets,
    an_answer,
    *given.ALL,
    *registered.ALL,
)
