"""Checks the protocol's models with spin, and each of them with one rule taken out.

`python tests/model/run.py [NAME ...]`: NAME is part of a model's or of a rule's name; without, all
run. `--short` leaves out those that take minutes. `--trace RULE` shows the steps of one
counterexample.

Exit code 0: no wrong result was found in the models as they are, and one was found wherever a rule
is out. 1: the opposite, somewhere. 2: usage. 3: spin or a C compiler is not there.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).resolve().parent

# Searches at a time. Each takes up to 2 GiB.
PARALLEL = 2
MEMORY_MIB = 8_000
DEPTH = 100_000
TIMEOUT_S = 900

_ERRORS = re.compile(r"errors: (\d+)")
_STATES = re.compile(r"(\S+) states, stored")
_VIOLATED = re.compile(r"pan:\d+: (.*) \(at depth")


@dataclass(frozen=True)
class Search:
    """A model with some of its macros defined, and what is to be found.

    Attributes:
        model: name of the `.pml` file.
        macros: the bounds, `NAME=number`.
        out: the macro that takes a rule out, or None.
        rule: what that rule is, in words.
        is_long: whether it takes minutes.
    """

    model: str
    macros: tuple[str, ...]
    out: str | None = None
    rule: str = ""
    is_long: bool = False

    @property
    def name(self) -> str:
        return self.out or " ".join(self.macros)


@dataclass
class Result:
    """What a search came to."""

    search: Search
    states: int = 0
    violated: str = ""
    seconds: float = 0
    trouble: str = ""
    trace: list[str] = field(default_factory=list)

    @property
    def as_wanted(self) -> bool:
        return not self.trouble and bool(self.violated) == bool(self.search.out)


SMALL_TASK = ("FIRST=1", "SECOND=2")
SMALL_EPOCH = ("FIRST=2", "SECOND=2")
FOREACH = ("RUNS=2", "TIMEOUTS=0")
LATE_FOREACH = ("RUNS=2", "TIMEOUTS=1")
SMALL_SHARED = ("GENERATIONS=2", "ATTEMPTS=2")
STRANGER_TASK = ("STRANGER=1", "FIRST=1", "SECOND=1", "TIMEOUTS=0", "CRASHES=0")
DEPOSED_TASK = ("DEPOSED=1", "FIRST=1", "SECOND=1", "TIMEOUTS=0")
STRANGER_SHARED = ("STRANGER=1", "GENERATIONS=1", "ATTEMPTS=1", "EXPULSIONS=0")
BACK_AND_FORTH = ("GENERATIONS=5", "ATTEMPTS=1", "EXPULSIONS=0")

WHOLE = [
    Search("task_scope", ("FIRST=2", "SECOND=2")),
    Search("task_scope", ("FIRST=1", "SECOND=3")),
    Search("task_scope", ("FIRST=2", "SECOND=1", "TIMEOUTS=2", "CRASHES=2")),
    Search("task_scope", ("FIRST=1", "SECOND=2", "TIMEOUTS=2", "CRASHES=2")),
    Search("task_scope", ("PARTS=1", "FIRST=1", "SECOND=2")),
    Search("task_scope", ("PARTS=1", "FIRST=2", "SECOND=2"), is_long=True),
    Search("task_scope", ("PARTS=1", "FIRST=1", "SECOND=3"), is_long=True),
    Search("task_scope", STRANGER_TASK),
    Search("task_scope", DEPOSED_TASK),
    Search("task_scope", ("DEPOSED=1", "PARTS=1", "FIRST=1", "SECOND=1")),
    Search("task_scope", ("DEPOSED=1", "FIRST=1", "SECOND=2"), is_long=True),
    Search("epoch_scope", ("FIRST=2", "SECOND=3")),
    Search("epoch_scope", ("FIRST=2", "SECOND=2", "TIMEOUTS=2")),
    Search("foreach_batch", FOREACH),
    Search("foreach_batch", LATE_FOREACH),
    Search("shared_scope", SMALL_SHARED),
    Search("shared_scope", ("GENERATIONS=3", "ATTEMPTS=2", "EXPULSIONS=0")),
    Search("shared_scope", BACK_AND_FORTH),
    Search("shared_scope", STRANGER_SHARED),
    Search("shared_scope", ("STRANGER=1", "GENERATIONS=2", "ATTEMPTS=1"), is_long=True),
]

TASK_RULES = {
    "OFFSETS_APART": "1: offsets are in the records' transaction",
    "NO_INIT": "3: an attempt initialises its transactional id",
    "NO_STABLE_FETCH": "3: a stable fetch follows initTransactions",
    "SPLIT": "5: a partition is in one slot",
    "UNCLEAR_IS_COMMITTED": "7: an EndTxn without an answer is not believed",
    "TRUST_THE_PLAN": "7: only what the resting producer committed itself is believed",
    "NO_FENCE": "8: offsets carry the driver's fence",
    "NO_END_AT_START": "9: a driver's start ends what former runs left open",
    "JOIN_LAST": "9: a driver joins before it ends transactions",
    "SHARED_PRODUCER": "12: a producer serves one attempt at a time",
}
PARTS_RULES = {
    "PLANNED_END_ON_THE_WAY": "2: a commit on the way has the offsets of what is out",
}
STRANGER_RULES = {
    "KAFKAS_NAMES": "8: an application is refused while a driver is a member",
    "BELIEVED": "10: a driver goes on from stamped offsets only, also when it joins again",
    "NO_STAMP_IN_TASK": "10: so does a task",
    "ADOPT_ANY": "10: adopt takes no unstamped offset of a query that has run",
    "ADOPT_THE_LOGGED_END": "10: not even one that is the end of a batch that was done",
}
DEPOSED_RULES = {
    "BELIEVE_ANY_FETCH": "3: the coordinator that has accepted the offsets confirms the start",
}
EPOCH_RULES = {
    "NO_DECISION_FENCE": "6.4: a driver initialises the decision id",
    "READ_FIRST": "6.4: it does so before it reads the decisions",
    "NO_NEWER_CHECK": "6.4: a decision newer than Spark's log stops the query",
    "NO_HASH": "6.4: so does one for another plan of the epoch",
    "NO_TAKEN_CHECK": "6.4: so does one on a batch that Spark had chosen before",
    "NO_RUN_NUMBER": "6.3: only transactions of this and former runs are ended",
    "REUSED_IDS": "6.6: transactional ids are those of one run",
    "PLAIN_CLOSE": "6.1: a prepared producer is closed without an abort",
    "NO_CHECK": "6.2: prepared transactions are looked at before the decision",
    "ENDS_LATE": "6.3: lost attempts are ended before the next epoch's tasks begin",
    "SLOW_DECISION": "6.2: a decision times out before what it decides on",
    "ABORT_AFTER_DECISION": "6.3: an unclear decision is left alone",
    "NO_HEAL": "6.5: a decided transaction that was aborted is noticed",
    "HEAL_UNSEEN": "6.5: aborted is what a reader does not find, not what is not open",
}
FOREACH_RULES = {
    "LOGGED_IS_DONE": "R1: what is decided is rolled forward, whatever Spark has logged",
    "ONLY_WHAT_IS_CALLED": "R2: a start settles every name that the checkpoint knows",
    "NO_SHARED_FENCE": "R2: a run that a later one has fenced opens no further name",
    "FENCED_LATE": "R2: nor does it write with what it found after it was fenced",
    "RENAMED": "R3: a decided batch is not written under a name without a decision",
    "SIBLING_BY_NAME": "R3: siblings are two names that have both written the batch before",
    "THIS_BATCH_ONLY": "R3: a later decision of any name says that the batch was done, too",
    "END_BY_ID": "R4: EndTxn is for the producer id and epoch that were prepared",
    "HEAL_UNSEEN": "R4: lost is what a reader does not find, not what is not open",
    "SPARED_BY_ID": "R4: only the decided transactions are spared, not their ids",
    "ANOTHER_AFTER_UNSETTLED": "R5: no other name is written after an unsettled write",
}
LATE_FOREACH_RULES = {
    "AFTER_A_FAILED_REPAIR": "R5: nor after a decided write that could not be repaired",
    "LOST_IS_PASSED_OVER": "R6: a name that has lost a batch writes no other one",
}
SHARED_RULES = {
    "NO_GENERATION": "4: offsets carry the group's generation",
    "LEASE_UNCHECKED": "4: a fence is given only where the partition stayed",
    "NO_PLAN_NUMBER": "4: and for the plan at hand",
    "NO_REVOCATION_WAIT": "4: a partition is given up when its transactions have ended",
    "ANY_END": "4: one attempt's end is not another's",
    "NO_FENCE_AT_END": "4: attempts that a batch's end leaves behind are fenced",
    "NO_FENCE_WHEN_LOST": "4: so are those over a partition that was lost",
    "NO_END_GONE": "4: a new owner ends what members that are gone have left open",
    "NO_STABLE_FETCH": "3: a stable fetch follows initTransactions",
    "WHOEVER_HAS_THE_ID": "4: past its producer a task ends that one's transaction, no other",
}
TERM_RULES = {
    "LEASE_BY_PARTITION": "4: a fence is for the term of the plan: not gone and come back",
    "START_BY_PARTITION": "4: a start is committed in the term in which it was found",
}
STRANGER_SHARED_RULES = {
    "BELIEVED": "10: a driver goes on from stamped offsets only",
}
SEARCHES = [
    *WHOLE,
    *(Search("task_scope", SMALL_TASK, out, rule) for out, rule in TASK_RULES.items()),
    *(
        Search("task_scope", ("PARTS=1", *SMALL_TASK), out, rule)
        for out, rule in PARTS_RULES.items()
    ),
    *(Search("task_scope", STRANGER_TASK, out, rule) for out, rule in STRANGER_RULES.items()),
    *(Search("task_scope", DEPOSED_TASK, out, rule) for out, rule in DEPOSED_RULES.items()),
    *(Search("epoch_scope", SMALL_EPOCH, out, rule) for out, rule in EPOCH_RULES.items()),
    *(Search("foreach_batch", FOREACH, out, rule) for out, rule in FOREACH_RULES.items()),
    *(Search("foreach_batch", LATE_FOREACH, out, rule) for out, rule in LATE_FOREACH_RULES.items()),
    *(Search("shared_scope", SMALL_SHARED, out, rule) for out, rule in SHARED_RULES.items()),
    *(Search("shared_scope", BACK_AND_FORTH, out, rule) for out, rule in TERM_RULES.items()),
    *(
        Search("shared_scope", STRANGER_SHARED, out, rule)
        for out, rule in STRANGER_SHARED_RULES.items()
    ),
]


def main() -> int:
    """Run the chosen searches and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a model's or rule's name")
    parser.add_argument("--short", action="store_true", help="without those that take minutes")
    parser.add_argument("--trace", metavar="RULE", help="show the counterexample without this rule")
    arguments = parser.parse_args()
    if missing := [tool for tool in ("spin", "cc") if shutil.which(tool) is None]:
        print(
            f"model: not run, {' and '.join(missing)} is missing (apt-get install spin gcc)",
            file=sys.stderr,
        )
        return 3
    if arguments.trace:
        chosen = [search for search in SEARCHES if search.out == arguments.trace]
    else:
        chosen = [
            search
            for search in SEARCHES
            if not (arguments.short and search.is_long)
            and (
                not arguments.names
                or any(part in f"{search.model} {search.name}" for part in arguments.names)
            )
        ]
    if not chosen:
        parser.error("no search has that name")
    began = time.monotonic()
    with ThreadPoolExecutor(PARALLEL) as threads:
        results = list(threads.map(run, chosen))
    if arguments.trace:
        print("\n".join(results[0].trace))
    show(results, time.monotonic() - began)
    return 0 if all(result.as_wanted for result in results) else 1


def run(search: Search) -> Result:
    """Build the search and run it in a folder of its own."""
    result = Result(search)
    began = time.monotonic()
    macros = [f"-D{macro}" for macro in (*search.macros, *([search.out] if search.out else []))]
    with tempfile.TemporaryDirectory(prefix="eoskafka-model-") as name:
        folder = Path(name)
        shutil.copy(FOLDER / f"{search.model}.pml", folder / "model.pml")
        try:
            call(folder, "spin", "-a", *macros, "model.pml")
            call(folder, "cc", "-w", "-O2", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}",
                 "-o", "pan", "pan.c")  # fmt: skip
            # -E: a driver that waits for ever is no error, it is one that died.
            said = call(folder, "./pan", "-E", f"-m{DEPTH}", "-w25")
        except subprocess.SubprocessError as error:
            result.trouble = f"{error}\n{getattr(error, 'output', '') or ''}"
        else:
            read(said, result)
        if result.violated:
            steps = call(folder, "spin", "-t", "-p", *macros, "model.pml").splitlines()
            result.trace = [step for step in steps if "proc " in step]
    result.seconds = time.monotonic() - began
    return result


def call(folder: Path, *command: str) -> str:
    """A command's output; CalledProcessError if it fails."""
    return subprocess.run(
        command,
        cwd=folder,
        check=True,
        timeout=TIMEOUT_S,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout


def read(said: str, result: Result) -> None:
    """Take what `pan` prints at its end."""
    errors, states, violated = _ERRORS.search(said), _STATES.search(said), _VIOLATED.search(said)
    if errors is None or states is None:
        result.trouble = said[-2_000:]
        return
    result.states = int(float(states[1]))
    if "max search depth too small" in said or "out of memory" in said:
        result.trouble = "the search was cut short"
    elif int(errors[1]):
        result.violated = violated[1] if violated else "?"
        if "assertion violated" not in result.violated or "invalid" in result.violated:
            result.trouble = f"an error of the model itself: {result.violated}"


def show(results: list[Result], seconds: float) -> None:
    """A table, and a line to close with."""
    table = Table("model", "search", "rule taken out", "found", "states", "s")
    for result in results:
        found = "a counterexample" if result.violated else "nothing wrong"
        table.add_row(
            result.search.model,
            result.search.name,
            result.search.rule,
            result.trouble.strip()[-300:] or found,
            f"{result.states:,}",
            f"{result.seconds:.0f}",
            style=None if result.as_wanted else "bold red",
        )
    Console(width=150).print(table)
    good = sum(result.as_wanted for result in results)
    print(f"{sum(result.states for result in results):,} states in {seconds:.0f} s")
    print(f"model: {good} passed, {len(results) - good} failed")


if __name__ == "__main__":
    sys.exit(main())
