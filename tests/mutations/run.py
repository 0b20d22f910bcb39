"""Takes each rule out of the connector in turn and sees the test fail that guards it.

`python tests/mutations/run.py [NAME ...]`: NAME is part of a patch's file name; without, all run.
`--resume` skips what reports/mutations.md says was caught with this patch and these sources.
`--passed REPORT` takes pytest's JUnit report on these sources for the control of the tests in it.
`--test NODE` runs another test against each of them, to see whether it would have found it too;
the report does not get that.

A patch in this folder is a diff against the repository's root. The lines above it say

    # rule: what is taken out, by its number among the design's invariants
    # out:  what the connector does instead
    # test: the node id of the test that must fail then, or of a JUnit test the class and method,
    #       with # between them

For each one the tree is copied and the patch applied. If the patch changes the connector, its jar
is made there, and the test runs here against that jar (EOSKAFKA_JAR). If it changes Java code
alone, the classes are compiled against Maven's jar and replace those in it, which takes half of
the time. If it changes the Python package alone, the test runs here with that package. A JUnit test
runs in the copy. Before a test's first mutation it must pass in the same way without a patch: a
test that fails anyway catches nothing. Each result becomes a row of reports/mutations.md at once;
the other rows stay.

Exit code 0: every mutation was caught. 1: a mutation survived, or could not be tried: the
patch is stale or does not compile; the test fails without it, broke before it came to a verdict,
or ran into pytest's own timeout. 2: usage.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
sys.path.insert(0, str(FOLDER.parent))

from prove.behaviour import connector_digest, package_digest  # noqa: E402

REPORT = ROOT / "reports" / "mutations.md"
SOURCES = "jvm-shim/connector/src/main/java"
# As the build does it: see `relocate.from` and `relocate.to` in the connector's pom.xml.
KAFKA, RELOCATED = re.compile(r"\borg\.apache\.kafka\b"), "io.eoskafka.shaded.kafka"
VERSION = "0.0.0"
DIGEST_CHARS = 12

# How a test says that what it looked for is not so: it compared, or waited in vain for as long as
# it wanted to, or could not decide. Anything else is a test that broke.
ASSERTED = re.compile(r"(?:AssertionError|TimeoutError)(?=:|$)|assert |Failed: DID NOT RAISE ")
UNDECIDED = re.compile(r"eoskafka\.audit\.(?:\w+\.)*UndecidedError(?=:|$)")
# The last line of a failure's text in pytest's report: where the error was raised.
RAISED_AT = re.compile(r"^(?P<file>.+):\d+: \w+$")
# pytest-timeout has cut the test short, though clean-up may have failed after it in another way.
CUT_SHORT = re.compile(r"^E +Failed: (?P<what>Timeout \(>.*\) from pytest-timeout)", re.MULTILINE)


# The same of a JUnit test. Assertions of JUnit, AssertJ and jqwik have such types.
FAILED_ASSERTION = re.compile(
    r"(?:\w+\.)*(?:\w*AssertionError|\w*AssertionFailedError|MultipleFailuresError)"
)
JUNIT = re.compile(r"(?P<type>io\.eoskafka\.[\w.]+)#(?P<method>\w+)")
CHANGED = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)


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
class State:
    """What a mutation was tried with.

    Attributes:
        patch: digest of the patch.
        sources: digest of what the connector's jar is made of, without comments and the texts of
            messages, or of the Python package if the patch changes that alone; before the patch.
        commit: of the tree.
        is_clean: whether the tree was as committed; the report itself does not count.
    """

    patch: str
    sources: str
    commit: str
    is_clean: bool


@dataclass(frozen=True)
class Result:
    """A mutation's outcome; `detail` is the failed test's message, or what went wrong."""

    mutation: Mutation
    state: State
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
    parser.add_argument(
        "--resume", action="store_true", help="skip what was caught with this patch and sources"
    )
    parser.add_argument(
        "--passed",
        action="append",
        default=[],
        metavar="REPORT",
        type=Path,
        help="pytest's report: what passed there with these sources does so without the mutation",
    )
    arguments = parser.parse_args()
    if arguments.test and arguments.resume:
        parser.error("the report of --resume is of the mutations' own tests, not of --test")
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
    if arguments.resume:
        known = read_rows(REPORT)
        chosen = [m for m in mutations if not is_caught(known.get(m.patch.stem), state_of(m))]
        print(f"{len(mutations) - len(chosen)} of {len(mutations)} were caught before: skipped")
        mutations = chosen
    results = []
    with tempfile.TemporaryDirectory(prefix="eoskafka-mutations-") as name:
        control = Control(Path(name), passed_in(arguments.passed))
        for number, mutation in enumerate(mutations, start=1):
            print(f"[{number}/{len(mutations)}] {mutation.patch.stem}: {mutation.rule}", flush=True)
            results.append(attempt(mutation, control))
            print(f"    {results[-1].outcome.value}: {results[-1].detail}", flush=True)
            if not arguments.test:
                record(results[-1])
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


# ---- one mutation


@dataclass
class Control:
    """Runs tests against the connector as it is, each of them once.

    Attributes:
        folder: for the tree that its jar is built in.
        passed: node ids of tests that are known to pass.
    """

    folder: Path
    passed: set[str] = field(default_factory=set)
    _broken: dict[str, str | None] = field(default_factory=dict)

    def require_passes(self, test: str) -> None:
        """BrokenError unless the test passes without any mutation."""
        if test in self.passed:
            return
        if test not in self._broken:
            self._broken[test] = self._why_not(test)
        if why := self._broken[test]:
            raise BrokenError(f"the test fails without the mutation: {why}")

    def jar(self) -> Path:
        """The connector's, without any mutation."""
        tree = self._tree()
        jar = jar_in(tree)
        return jar if jar.is_file() else build(tree)

    def _tree(self) -> Path:
        tree = self.folder / "tree"
        if not tree.is_dir():
            copy_tree(tree)
        return tree

    def _why_not(self, test: str) -> str | None:
        try:
            if JUNIT.fullmatch(test):
                outcome, detail = run_junit_test(test, self._tree())
            else:
                outcome, detail = run_test(test, self.jar(), self.folder)
        except BrokenError as error:
            return str(error)
        return None if outcome is Outcome.SURVIVED else detail


def passed_in(reports: Iterable[Path]) -> set[str]:
    """Node ids of the tests that have passed with the present sources, by pytest's reports."""
    sources = {"connector": connector_digest(ROOT), "package": package_digest(ROOT)}
    passed: set[str] = set()
    others: set[str] = set()
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            test = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            known = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
            verdict = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
            (others if verdict or not sources.items() <= known.items() else passed).add(test)
    return passed - others


def attempt(mutation: Mutation, control: Control) -> Result:
    """Build the mutated connector and run the test against it."""
    state = state_of(mutation)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eoskafka-mutation-") as name:
        folder = Path(name)
        try:
            control.require_passes(mutation.test)
            began = time.monotonic()
            outcome, detail = tried(mutation, control, folder)
        except BrokenError as error:
            outcome, detail = Outcome.BROKEN, str(error)
    return Result(mutation, state, outcome, detail, time.monotonic() - began)


def tried(mutation: Mutation, control: Control, folder: Path) -> tuple[Outcome, str]:
    """What the mutation's test says of it; BrokenError if it says nothing."""
    tree = folder / "tree"
    copy_tree(tree)
    run(["git", "apply", "--whitespace=nowarn", str(mutation.patch)], tree, "the patch is stale")
    if JUNIT.fullmatch(mutation.test):
        return run_junit_test(mutation.test, tree)
    if is_of_python(mutation.patch):
        return run_test(mutation.test, control.jar(), folder, package=tree / "python")
    if is_of_java(mutation.patch):
        return run_test(mutation.test, recompile(tree, control.jar()), folder)
    return run_test(mutation.test, build(tree), folder)


def is_of_python(patch: Path) -> bool:
    """Whether a patch changes the Python package alone."""
    changed = CHANGED.findall(patch.read_text(encoding="utf-8"))
    return all(name.startswith("python/") and name.endswith(".py") for name in changed)


def is_of_java(patch: Path) -> bool:
    """Whether a patch changes the connector's Java code alone."""
    changed = CHANGED.findall(patch.read_text(encoding="utf-8"))
    return all(name.startswith(f"{SOURCES}/") and name.endswith(".java") for name in changed)


def recompile(tree: Path, jar: Path) -> Path:
    """The connector's jar with this tree's classes in place of its own.

    Args:
        tree: whose sources are compiled.
        jar: made by `build` from sources with the same resources. It has Kafka's client under a
            package name of its own, so the sources are compiled with that name.
    """
    compiled, sources = tree / "compiled", tree / "relocated"
    files = []
    for source in (tree / SOURCES).rglob("*.java"):
        file = sources / source.relative_to(tree / SOURCES)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        file.write_text(KAFKA.sub(RELOCATED, text), encoding="utf-8")
        files.append(str(file))
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    spark = Path(pyspark.origin).parent / "jars"
    path = os.pathsep.join([str(jar), f"{spark}/*"])
    options = ["-nowarn", "-proc:none", "-g", "--release", "17", "-encoding", "UTF-8"]
    command = [
        "javac",
        "-J-XX:TieredStopAtLevel=1",
        *options,
        "-cp",
        path,
        "-d",
        str(compiled),
        *files,
    ]
    run(command, tree, "the connector cannot be compiled")
    target = tree / jar.name
    shutil.copy(jar, target)
    update = ["jar", "--update", "--file", str(target), "-C", str(compiled), "."]
    run(update, tree, "the jar cannot be updated")
    return target


def build(tree: Path) -> Path:
    """The connector's jar, made in this copy of the tree."""
    package = ("package", "-Dmaven.test.skip=true", "-Deoskafka.sources=mutated")
    run(maven(*package), tree, "the connector cannot be built")
    return jar_in(tree)


def maven(*arguments: str) -> list[str]:
    """A command for the connector alone."""
    of_connector = ("-q", "-B", "-f", "jvm-shim/pom.xml", "-pl", "connector")
    return [shutil.which("mvn") or "mvn", *of_connector, f"-Drevision={VERSION}", *arguments]


def jar_in(tree: Path) -> Path:
    """Where `build` leaves the jar."""
    return tree / "jvm-shim" / "connector" / "target" / f"eoskafka-{VERSION}.jar"


def copy_tree(tree: Path) -> None:
    """What git knows or would add, so without environments and builds."""
    for name in filter(None, git("ls-files", "-z", "-co", "--exclude-standard").split("\0")):
        source = ROOT / name
        if source.is_file():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def git(*arguments: str) -> str:
    """What git says of this repository."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def head() -> str:
    """The commit of this checkout."""
    return git("rev-parse", f"--short={DIGEST_CHARS}", "HEAD").strip()


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


def run_junit_test(test: str, tree: Path) -> tuple[Outcome, str]:
    """Run one JUnit test in this copy of the tree, and return what it says of its connector.

    Raises:
        BrokenError: it has said nothing, or the error is not of what it looked for.
    """
    named = JUNIT.fullmatch(test)
    assert named is not None
    reports = tree / "jvm-shim" / "connector" / "target" / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    why_none = ""
    try:
        run(maven("test", f"-Dtest={named['type']}#{named['method']}"), tree, "Maven has failed")
    except BrokenError as error:
        # As it also does if the test fails.
        why_none = str(error)
    found = [case for file in reports.glob("*.xml") for case in ET.parse(file).iter("testcase")]
    # A test with parameters has several.
    cases = [case for case in found if case.get("classname") == named["type"]]
    if not cases:
        raise BrokenError(f"there is no test {test}. {why_none}")
    return judge_junit(cases)


def judge_junit(cases: list[ET.Element]) -> tuple[Outcome, str]:
    """What Maven's report on one test says; BrokenError as `run_junit_test` has it."""
    for case in cases:
        for kind in ("failure", "error"):
            if (other := case.find(kind)) is None:
                continue
            message = f"{other.get('type')}: {(other.get('message') or '').strip()}"
            if not FAILED_ASSERTION.fullmatch(other.get("type") or ""):
                raise BrokenError(f"the test broke: {message[:1000]}")
            return Outcome.CAUGHT, message.partition("\n")[0][:300]
    if any(case.find("skipped") is not None for case in cases):
        raise BrokenError("the test was skipped")
    return Outcome.SURVIVED, "the test passes without the rule"


def run_test(
    test: str, jar: Path, folder: Path, root: Path = ROOT, package: Path | None = None
) -> tuple[Outcome, str]:
    """Run one test, and return what it says of this jar.

    Args:
        test: its node id.
        jar: the connector that it runs against.
        folder: for pytest's report.
        root: of the repository that has the test.
        package: where the Python package is that it runs against; None for the installed one.

    Raises:
        BrokenError: it has said nothing, or the error is not of what it looked for.
    """
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "EOSKAFKA_JAR": str(jar),
        "EOSKAFKA_ALLOW_OTHER_JAR": "true",
        **({"PYTHONPATH": str(package)} if package else {}),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", f"--junitxml={report}", test],
        cwd=root,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if not report.is_file():
        # With timeout_method=thread pytest-timeout ends the whole process.
        raise BrokenError(f"pytest has left no report on {test}: {done.stdout[-2000:]}")
    cases = list(ET.parse(report).iter("testcase"))
    names = {(case.get("classname"), case.get("name")) for case in cases}
    if len(names) != 1:
        raise BrokenError(f"{test} names {len(names)} tests, not one")
    return judge(cases, root)


def judge(cases: list[ET.Element], root: Path) -> tuple[Outcome, str]:
    """What pytest's report on one test says; BrokenError as `run_test` has it.

    Args:
        cases: its entry; there is a second one if it has failed and its fixtures fail after it.
        root: of the repository that has the test.
    """
    for case in cases:
        if (failure := case.find("failure")) is not None:
            return Outcome.CAUGHT, verdict(failure, root)
    for case in cases:
        for kind in ("error", "skipped"):
            if (other := case.find(kind)) is not None:
                raise BrokenError(f"{kind}: {(other.get('message') or '').strip()[:1000]}")
    return Outcome.SURVIVED, "the test passes without the rule"


def verdict(failure: ET.Element, root: Path) -> str:
    """A failed test's message; BrokenError if that is not of what the test looked for."""
    message = (failure.get("message") or "").strip()
    text = failure.text or ""
    if cut := CUT_SHORT.search(text):
        raise BrokenError(f"the test came to no end: {cut['what']}")
    line = message.partition("\n")[0]
    raised = RAISED_AT.match(text.rpartition("\n")[2])
    # A socket has a TimeoutError too, and libraries assert.
    is_ours = raised and (root / raised["file"]).resolve().is_relative_to(root.resolve() / "tests")
    if not (UNDECIDED.match(line) or (ASSERTED.match(line) and is_ours)):
        raise BrokenError(f"the test broke: {message[:1000]}")
    return line[:300]


# ---- the report


@dataclass(frozen=True)
class Row:
    """A mutation's line in the report: its cells, as text."""

    mutation: str
    rule: str
    test: str
    verdict: str
    seconds: str
    date: str
    commit: str
    patch: str
    sources: str

    def __str__(self) -> str:
        cells = (str(cell).replace("|", "\\|") for cell in vars(self).values())
        return f"| {' | '.join(cells)} |"


TITLES = Row("mutation", "rule", "test", "verdict", "s", "date", "commit", "patch", "sources")


def row_of(result: Result) -> Row:
    """The line for a result of today."""
    state = result.state
    return Row(
        result.mutation.patch.stem,
        result.mutation.rule,
        f"`{result.mutation.test}`",
        result.outcome.value,
        f"{result.seconds:.0f}",
        datetime.now(timezone.utc).date().isoformat(),
        state.commit if state.is_clean else f"{state.commit} and changes",
        state.patch,
        state.sources,
    )


def state_of(mutation: Mutation) -> State:
    """What a mutation would be tried with now."""
    return State(
        hashlib.sha256(mutation.patch.read_bytes()).hexdigest()[:DIGEST_CHARS],
        digest_of_sources(mutation.patch)[:DIGEST_CHARS],
        head(),
        not git("status", "--porcelain", "--", ".", f":!{REPORT.relative_to(ROOT)}"),
    )


def digest_of_sources(patch: Path) -> str:
    """Of what a patch changes a part of: the Python package, or what the jar is made of."""
    return package_digest(ROOT) if is_of_python(patch) else connector_digest(ROOT)


def is_caught(row: Row | None, state: State) -> bool:
    """Whether a row says that this patch of these sources was caught."""
    return row is not None and (row.verdict, row.patch, row.sources) == (
        Outcome.CAUGHT.value,
        state.patch,
        state.sources,
    )


def read_rows(report: Path) -> dict[str, Row]:
    """The report's lines by mutation."""
    if not report.is_file():
        return {}
    rows = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == len(vars(TITLES)) and cells[0] not in (TITLES.mutation, "---"):
            rows[cells[0]] = Row(*cells)
    return rows


def record(result: Result, report: Path = REPORT) -> None:
    """Put a result in the place of its mutation's former row."""
    row = row_of(result)
    rows = {**read_rows(report), row.mutation: row}
    there = [patch.stem for patch in sorted(FOLDER.glob("*.patch"))]
    draft = report.with_suffix(".tmp")
    draft.write_text(page([rows[name] for name in there if name in rows], len(there)), "utf-8")
    draft.replace(report)


def page(rows: list[Row], patches: int) -> str:
    """The report."""
    caught = sum(row.verdict == Outcome.CAUGHT.value for row in rows)
    return "\n".join(
        [
            f"# Mutations: {patches} rules, {len(rows)} tried, {caught} caught",
            "",
            "`make mutations`. One rule at a time is taken out of the connector, and the test",
            "that guards it must fail; the same test must have passed without the mutation. Each",
            "row names the commit that it was run at. The last two columns are digests of the",
            "patch and of what the jar is made of; what was caught with both is not run again.",
            "",
            str(TITLES),
            f"|{'---|' * len(vars(TITLES))}",
            *map(str, rows),
            "",
        ]
    )


def show(results: Iterable[Result]) -> None:
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
