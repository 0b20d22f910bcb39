"""Takes each rule out of the connector in turn and sees the test fail that guards it.

`python tests/mutations/run.py [NAME ...]`: NAME is part of a patch's file name; without, all run.
`--test NODE` runs another test against each of them, to see whether it would have found it too.

A patch in this folder is a diff against the repository's root. The lines above it say

    # rule: what is taken out, by its number among the design's invariants
    # out:  what the connector does instead
    # test: the node id of the test that must fail then

For each one the tree is copied, the patch applied and the jar built there; the test then runs here,
against that jar (EOSKAFKA_JAR). Exit code 0: every rule was missed by its test. 1: a mutation
survived, or could not be tried (the patch is stale, does not compile, or the test broke before its
own code ran). 2: usage.
"""

from __future__ import annotations

import argparse
import enum
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path(__file__).resolve().parent
VERSION = "0.0.0"

# How a test says that what it looked for is not so: it compared, or waited in vain, or could not
# decide. Anything else is a test that broke.
VERDICTS = ("AssertionError", "assert ", "TimeoutError", "UndecidedError", "eoskafka.audit")


class Outcome(str, enum.Enum):
    """What became of a mutation."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"


@dataclass(frozen=True)
class Mutation:
    """A patch and what it says of itself."""

    patch: Path
    rule: str
    test: str


@dataclass(frozen=True)
class Result:
    """A mutation's outcome; `detail` is the failed test's message, or what went wrong."""

    mutation: Mutation
    outcome: Outcome
    detail: str
    seconds: float


class BrokenError(Exception):
    """The mutation could not be tried."""


def main() -> int:
    """Try the chosen mutations and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a patch's file name")
    parser.add_argument("--list", action="store_true", help="list the mutations, run nothing")
    parser.add_argument("--test", metavar="NODE", help="run this test instead of their own")
    arguments = parser.parse_args()
    mutations = [
        replace(mutation, test=arguments.test or mutation.test)
        for mutation in map(read, sorted(FOLDER.glob("*.patch")))
        if not arguments.names or any(name in mutation.patch.name for name in arguments.names)
    ]
    if not mutations:
        parser.error(f"no patch has one of these in its name: {' '.join(arguments.names)}")
    if arguments.list:
        for mutation in mutations:
            print(f"{mutation.patch.stem}\t{mutation.rule}\t{mutation.test}")
        return 0
    results = []
    for number, mutation in enumerate(mutations, start=1):
        print(f"[{number}/{len(mutations)}] {mutation.patch.stem}: {mutation.rule}", flush=True)
        results.append(attempt(mutation))
        print(f"    {results[-1].outcome.value}: {results[-1].detail}", flush=True)
    show(results)
    return 0 if all(result.outcome is Outcome.CAUGHT for result in results) else 1


def read(patch: Path) -> Mutation:
    """A patch's own lines."""
    said = {}
    for line in patch.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line[2:].partition(":")
        said[key] = value.strip()
    missing = {"rule", "out", "test"} - said.keys()
    if missing:
        raise SystemExit(f"{patch} does not say {', '.join(sorted(missing))}")
    return Mutation(patch, said["rule"], said["test"])


def attempt(mutation: Mutation) -> Result:
    """Build the mutated connector and run the test against it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eoskafka-mutation-") as name:
        try:
            jar = build(mutation, Path(name) / "tree")
            outcome, detail = run_test(mutation, jar, Path(name) / "report.xml")
        except BrokenError as error:
            outcome, detail = Outcome.BROKEN, str(error)
    return Result(mutation, outcome, detail, time.monotonic() - began)


def build(mutation: Mutation, tree: Path) -> Path:
    """The mutated connector's jar, made in a copy of the tree."""
    copy_tree(tree)
    run(["git", "apply", "--whitespace=nowarn", str(mutation.patch)], tree, "the patch is stale")
    mvn = shutil.which("mvn") or "mvn"
    run(
        [
            *(mvn, "-q", "-B", "-f", "jvm-shim/pom.xml", "-pl", "connector", "package"),
            *("-Dmaven.test.skip=true", f"-Drevision={VERSION}", "-Deoskafka.sources=mutated"),
        ],
        tree,
        "the mutated connector cannot be built",
    )
    return tree / "jvm-shim" / "connector" / "target" / f"eoskafka-{VERSION}.jar"


def copy_tree(tree: Path) -> None:
    """What git knows or would add, so without environments and builds."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_file():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def run(command: list[str], folder: Path, what: str) -> None:
    """Run a command; BrokenError with the end of its output if it fails."""
    # Not a part of a repository that the temporary folder may be in.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise BrokenError(f"{what}: {done.stdout[-2000:]}")


def run_test(mutation: Mutation, jar: Path, report: Path) -> tuple[Outcome, str]:
    """Run the mutation's test; what its report says."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", f"--junitxml={report}", mutation.test],
        cwd=ROOT,
        env={**os.environ, "EOSKAFKA_JAR": str(jar)},
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if not report.is_file():
        raise BrokenError(f"pytest did not get to {mutation.test}")
    cases = list(ET.parse(report).iter("testcase"))
    if len(cases) != 1:
        raise BrokenError(f"{mutation.test} names {len(cases)} tests, not one")
    failure = cases[0].find("failure")
    if failure is not None:
        message = (failure.get("message") or "").strip()
        if not any(verdict in message.partition("\n")[0] for verdict in VERDICTS):
            raise BrokenError(f"the test broke: {message[:1000]}")
        return Outcome.CAUGHT, message.partition("\n")[0][:300]
    for kind in ("error", "skipped"):
        if (other := cases[0].find(kind)) is not None:
            raise BrokenError(f"{kind}: {(other.get('message') or '').strip()[:1000]}")
    return Outcome.SURVIVED, f"{mutation.test} passes without the rule"


def show(results: list[Result]) -> None:
    """A summary table."""
    table = Table("mutation", "rule", "outcome", "s")
    for result in results:
        style = None if result.outcome is Outcome.CAUGHT else "bold red"
        table.add_row(
            result.mutation.patch.stem,
            result.mutation.rule,
            result.outcome.value,
            f"{result.seconds:.0f}",
            style=style,
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
