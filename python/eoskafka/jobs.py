"""Batch writes whose driver died, and how to settle them."""

from __future__ import annotations

import enum
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from eoskafka.cluster.jars import java
from eoskafka.errors import ConfigurationError, TransactionError
from eoskafka.failures import class_of
from eoskafka.session import jar_path

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
        outcome: UNKNOWN if nothing is known of a job of this name: it has never begun, or it had no
            writeId, has ended well and was forgotten; UNDECIDED if nothing of the job has
            taken effect, and nothing of it is left open; COMMITTED if all of it has; INCOMPLETE if
            it was decided and some of its transactions had timed out before.
        committed: how many transactions are committed.
        lost: how many had timed out. The same job, run again with the same rows and the same
            `writeId`, writes them.
        forgotten: whether the job's entry was removed.
    """

    outcome: Outcome
    committed: int
    lost: int
    forgotten: bool


def resolve(
    write_id: str, options: Mapping[str, str], forget: bool = False, give_up: bool = False
) -> Resolution:
    """Settle a batch write whose driver died: commit all of it if it was decided, else end it.

    A job that still runs is fenced by this: it fails, and nothing of it takes effect.

    Args:
        write_id: the job's `writeId`; of a job without one the id of one of its transactions, as
            `kafka-transactions.sh list` shows it.
        options: the sink's options, with `kafka.` before those of the client, as the job had them.
        forget: remove the job's entry from the decision topic afterwards, so that the name can be
            used anew. Not done for one that is INCOMPLETE.
        give_up: the same for one that is INCOMPLETE: what it has lost is then never written.

    Raises:
        ConfigurationError: pyspark is not installed, whose jars this needs.
        JarError: the connector's jar is missing or stale.
        UnreachableError: the cluster does not answer.
        TransactionError: the job cannot be settled, or whether it is is not known.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "pyspark is not installed, and its jars are needed here: pip install 'eoskafka[local]'"
        )
    spark = Path(spec.submodule_search_locations[0]) / "jars" / "*"
    jar = os.environ.get("EOSKAFKA_JAR") or str(jar_path())
    command = [
        *(java(), "-cp", os.pathsep.join((jar, str(spark)))),
        *("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", _PROGRAM),
    ]
    asked: dict[str, object] = {"forget": forget, "giveUp": give_up}
    unnamed = _TRANSACTIONAL_ID.fullmatch(write_id)
    if unnamed:
        asked["options"] = {**options, "transactionalIdPrefix": unnamed[1]}
        asked["jobId"] = unnamed[2]
    else:
        asked["options"] = {**options, "writeId": write_id}
    # Without a timeout: it waits for transactions that time out, as long as the brokers allow them.
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        raise TransactionError(
            f"it is not known whether '{write_id}' is settled: {last}. Repeat the command"
        )
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        if answer["condition"]:
            raise class_of(answer["condition"])(answer["error"], answer["condition"])
        raise TransactionError(answer["error"])
    return Resolution(
        Outcome(answer["outcome"]), answer["committed"], answer["lost"], answer["forgotten"]
    )
