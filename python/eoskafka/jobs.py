"""What a dead driver has left, and how to settle it without starting its job or query again."""

from __future__ import annotations

import enum
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from eoskafka import _jar, _json
from eoskafka.cluster.jars import java
from eoskafka.errors import ConfigurationError, TransactionError
from eoskafka.failures import class_of
from eoskafka.tokens import endpoint

_Read = TypeVar("_Read")

_PROGRAM = "io.eoskafka.decision.ResolveJob"

# Of a batch job's transactions: prefix and job id.
_TRANSACTIONAL_ID = re.compile(r"(.+)-job-([A-Za-z0-9_-]{22})-(?:decisions|w[0-9.]+)")


class Outcome(str, enum.Enum):
    """What became of a batch job's write."""

    UNKNOWN = "unknown"
    UNDECIDED = "undecided"
    COMMITTED = "committed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class Resolution:
    """What `resolve` has found and done.

    Attributes:
        outcome: UNKNOWN if there is no trace of a job with this name: it has never begun, or it had
            no writeId, succeeded and was forgotten; UNDECIDED if none of its rows took effect and
            none of its transactions is open; COMMITTED if all its rows took effect; INCOMPLETE if
            it was decided, but some of its transactions had already timed out.
        committed: how many transactions are committed.
        lost: how many had timed out. The same job, run again with the same rows and the same
            `writeId`, writes them.
        forgotten: whether the job's entry was removed.
    """

    outcome: Outcome
    committed: int
    lost: int
    forgotten: bool


@dataclass(frozen=True)
class Settled:
    """What `resolve_checkpoint` has found of one write that a checkpoint knows, and done.

    Attributes:
        name: the checkpoint, and for a write of `foreachBatch` its `writeId`.
        outcome: COMMITTED if the last decided epoch has taken effect as a whole, INCOMPLETE if some
            of its transactions had already timed out, UNDECIDED if no epoch was ever decided; None
            if the write could not be settled.
        epoch: the last decided epoch, or -1.
        committed: how many of its transactions are committed.
        lost: how many had timed out.
        missing: what the lost transactions would have written: writers, rows, and the input of the
            epoch. It is also set if the loss was accepted before.
        accepted: whether the loss was accepted, now or before, so that the write can continue.
        error: why it could not be settled, or empty.
    """

    name: str
    outcome: Outcome | None
    epoch: int = -1
    committed: int = 0
    lost: int = 0
    missing: str = ""
    accepted: bool = False
    error: str = ""


def resolve_checkpoint(
    checkpoint: str,
    options: Mapping[str, str],
    accept_loss: int | None = None,
    of_write: str | None = None,
) -> tuple[Settled, ...]:
    """Settle everything that a query has decided in epoch scope or in writes of `foreachBatch`.

    Decided transactions are committed, and all others that former runs left open are aborted. A
    driver of the query that is still running is fenced and stops; restart it afterwards.

    Args:
        checkpoint: the query's checkpoint folder, a path or a URL that Hadoop's clients know.
        options: the options of the output's cluster, with `kafka.` before those of the client.
        accept_loss: the epoch whose loss is accepted: the write that lost some of its records
            continues without them. If several have lost some, nothing is accepted unless `of_write`
            names one of them.
        of_write: the `writeId` of that write.

    Returns:
        one for each write that the checkpoint knows, in the order of their files.

    Raises:
        ConfigurationError: also if pyspark's jars do not know the checkpoint's file system.
        CheckpointError: the folder is not a checkpoint, or is incomplete.
        JarError, UnreachableError, TransactionError: as `resolve` has them.
    """
    asked: dict[str, object] = {"checkpoint": checkpoint, "options": dict(options)}
    if accept_loss is not None:
        asked["acceptLoss"] = accept_loss
    if of_write is not None:
        asked["ofWrite"] = of_write
    try:
        return _writes(_ask(asked, f"the checkpoint {checkpoint}"))
    except TransactionError as error:
        # Hadoop has names of classes for some schemes, and no such class, and nothing for others.
        if not re.search(r"No FileSystem for scheme|Class \S+FileSystem not found", str(error)):
            raise
        raise ConfigurationError(
            f"{checkpoint} is on a file system that the jars of this machine's pyspark do not "
            "know. Nothing was changed. Copy the whole checkpoint to a folder and give that folder "
            "instead: the command only reads it"
        ) from error


def _writes(answer: dict[str, Any]) -> tuple[Settled, ...]:
    return _read(lambda: tuple(map(_settled, answer["writes"])), answer)


def _settled(write: dict[str, Any]) -> Settled:
    if "error" in write:
        return Settled(_text(write["name"]), None, error=_text(write["error"]))
    return Settled(
        name=_text(write["name"]),
        outcome=Outcome(write["outcome"]),
        epoch=_number(write["epoch"]),
        committed=_number(write["committed"]),
        lost=_number(write["lost"]),
        missing=_text(write["missing"]),
        accepted=_flag(write["accepted"]),
    )


def resolve(
    write_id: str, options: Mapping[str, str], forget: bool = False, give_up: bool = False
) -> Resolution:
    """Settle a batch write whose driver died: commit all of it if it was decided, else abort it.

    This fences a job that is still running: it fails, and none of its rows takes effect.

    Args:
        write_id: the job's `writeId`; for a job without one, the id of one of its transactions, as
            `kafka-transactions.sh list` shows it.
        options: the sink's options, with `kafka.` before those of the client, as the job had them.
        forget: remove the job's entry from the decision topic afterwards, so that the name can be
            used again. This is not done if the job is INCOMPLETE.
        give_up: the same for a job that is INCOMPLETE: the records that it lost are then never
            written.

    Raises:
        ConfigurationError: pyspark is not installed, whose jars this needs.
        JarError: the connector's jar is missing or stale.
        UnreachableError: the cluster does not answer.
        TransactionError: the job cannot be settled, or it is not known whether it was.
    """
    asked: dict[str, object] = {"forget": forget, "giveUp": give_up}
    unnamed = _TRANSACTIONAL_ID.fullmatch(write_id)
    if unnamed:
        asked["options"] = {**options, "transactionalIdPrefix": unnamed[1]}
        asked["jobId"] = unnamed[2]
    else:
        asked["options"] = {**options, "writeId": write_id}
    answer = _ask(asked, f"'{write_id}'")
    return _resolution(answer)


def _allowed_urls(options: Any) -> list[str]:
    """Java's client asks no token service that a system property does not allow."""
    url = options.get("kafka.sasl.oauthbearer.token.endpoint.url")
    if not url:
        return []
    endpoint(url)
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"]


def _resolution(answer: dict[str, Any]) -> Resolution:
    return _read(
        lambda: Resolution(
            Outcome(answer["outcome"]),
            _number(answer["committed"]),
            _number(answer["lost"]),
            _flag(answer["forgotten"]),
        ),
        answer,
    )


def _ask(asked: Mapping[str, object], what: str) -> dict[str, Any]:
    """What the program in the connector's jar answers."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "pyspark is not installed, and its jars are needed here: pip install 'eoskafka[local]'"
        )
    spark = Path(spec.submodule_search_locations[0]) / "jars" / "*"
    command = [
        *(java(), "-cp", os.pathsep.join((str(_jar.to_run()), str(spark)))),
        *("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"),
        *_allowed_urls(asked["options"]),
        _PROGRAM,
    ]
    # Without a timeout: it waits for transactions that time out, as long as the brokers allow them.
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    return _answer(done.stdout, done.stderr, what)


def _answer(out: str, err: str, what: str) -> dict[str, Any]:
    try:
        answer = _json.parse(out.splitlines()[-1])
    except (IndexError, ValueError):
        last = (out + err).strip().rpartition("\n")[2]
        raise TransactionError(
            f"it is not known whether {what} is settled: {last}. Repeat the command"
        ) from None
    if not isinstance(answer, dict):
        raise _unreadable(answer)
    if "error" in answer:
        error, condition = _read(
            lambda: (_text(answer["error"]), _text(answer["condition"])), answer
        )
        if condition:
            raise _read(lambda: class_of(condition), answer)(error, condition)
        raise TransactionError(error)
    return answer


def _read(read: Callable[[], _Read], answer: object) -> _Read:
    """What an answer says, if it is one of the program in this package's jar."""
    try:
        return read()
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _unreadable(answer) from None


def _unreadable(answer: object) -> TransactionError:
    return TransactionError(
        "the connector's answer cannot be read, so it is not known which transactions were "
        f"settled: {answer!r:.200}. Check that EOSKAFKA_JAR is the jar of this version, and repeat "
        "the command"
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value
