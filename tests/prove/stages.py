"""What `make prove` runs: the slow tests of each file, and the programs that write reports.

A stage is stale once what it vouches for has changed since it ran: what the connector's jar is made
of, and the code of the stage's own tests. Comments in Java and the wording of messages do not
count.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from harness.runs import run_tests

from prove.behaviour import connector_digest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "prove"
DIGEST_CHARS = 12
# Of one stage.
TIMEOUT_S = 4 * 3600
_FOLDERS = ("tests/integration", "tests/faults")
_SLOW = re.compile(r"\bmark\.slow\b")


@dataclass(frozen=True)
class Stage:
    """Something that runs by itself, and whose result is kept.

    Attributes:
        name: what `make prove` is asked for.
        claim: what it is evidence for.
        evidence: where one reads more: the tests' file or the report, from the repository's root.
        own: the files and folders with its own code, from the root.
        run: runs it; returns whether all is as claimed, and figures by name.
    """

    name: str
    claim: str
    evidence: str
    own: tuple[str, ...]
    run: Callable[[], tuple[bool, dict[str, Any]]]

    @cached_property
    def sources(self) -> str:
        """A digest of what it vouches for, and of its own code."""
        digest = hashlib.sha256(_connector().encode())
        for name in self.own:
            path = ROOT / name
            files = [path] if path.is_file() else sorted(path.rglob("*"))
            for file in files:
                if file.is_file() and "__pycache__" not in file.parts:
                    digest.update(f"{file.relative_to(ROOT).as_posix()}\0".encode())
                    digest.update(file.read_bytes())
        return digest.hexdigest()[:DIGEST_CHARS]


@dataclass(frozen=True)
class _Program:
    """One with a report of its own; it continues where it was interrupted.

    Attributes:
        name, claim, evidence, own: as those of its stage.
        figures: what finds figures in the report, as `figures_of` has it.
        command: `make` and a target, or a script and its arguments.
    """

    name: str
    claim: str
    evidence: str
    own: str
    figures: str
    command: tuple[str, ...]

    def run(self) -> tuple[bool, dict[str, Any]]:
        """Run it; whether it was content, and the report's figures."""
        python = () if self.command[0] == "make" else (sys.executable,)
        folders = (str(ROOT / "tests"), str(ROOT / "tests" / "integration"))
        done = subprocess.run(
            [*python, *self.command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
            check=False,
            timeout=TIMEOUT_S,
        )
        text = (ROOT / self.evidence).read_text(encoding="utf-8")
        return done.returncode == 0, figures_of(text, self.figures)


_PROGRAMS = (
    _Program(
        "mutations",
        "Each rule has a test that fails without it.",
        "reports/mutations.md",
        "tests/mutations",
        r"(\d+) (rules|tried|caught)",
        ("tests/mutations/run.py", "--resume"),
    ),
    _Program(
        "models",
        "No order of steps within the models' bounds breaks the protocol.",
        "tests/model/README.md",
        "tests/model",
        "",
        ("tests/model/run.py",),
    ),
    _Program(
        "simulation",
        "No schedule of crashes, pauses and lost answers breaks the driver's side of epoch scope.",
        "tests/README.md",
        "jvm-shim/connector/src/test/java/io/eoskafka/decision",
        "",
        ("make", "simulate"),
    ),
    _Program(
        "fuzz",
        "No input makes a reader of what others could have written do anything but refuse it.",
        "tests/fuzz/__init__.py",
        "tests/fuzz",
        "",
        ("make", "fuzz"),
    ),
    _Program(
        "static-analysis",
        "SpotBugs with find-sec-bugs finds nothing in the connector that has no reason.",
        "jvm-shim/connector/spotbugs-exclude.xml",
        "jvm-shim/connector/spotbugs-exclude.xml",
        "",
        ("make", "static-analysis"),
    ),
    _Program(
        "chaos",
        "Eight workloads, of every scope, are exact under faults of every kind.",
        "reports/chaos.md",
        "tests/faults",
        r"^\| (records|faults|anomalies|rounds not finished) \| ([\d,]+) \|$",
        ("make", "chaos"),
    ),
    _Program(
        "handover",
        "A new version of a query takes over from the running one.",
        "reports/handover.md",
        "tests/faults",
        r"([\d,]+) (records went in)",
        ("make", "handover"),
    ),
    _Program(
        "migration",
        "A checkpoint goes from the built-in connector to eoskafka and back, under load.",
        "reports/migration.md",
        "tests/faults",
        r"([\d,]+) (records went\s+in|are missing)",
        ("make", "migration"),
    ),
    _Program(
        "damaged-checkpoints",
        "A checkpoint whose files are damaged is continued rightly, or refused.",
        "reports/damaged-checkpoints.md",
        "tests/integration/damage.py",
        r"^\| (cells|right|refused, and right after the files were restored) \| (\d+) \|$",
        ("make", "damaged-checkpoints"),
    ),
    _Program(
        "corpus",
        "A start after a crash has the same outcome as with a former connector.",
        "reports/corpus.md",
        "tests/corpus",
        r"^\| (cells|with the same outcome, or the expected one) \| (\d+) \|$",
        ("make", "corpus"),
    ),
    _Program(
        "upgrades",
        "A killed query continues on another Spark version.",
        "reports/upgrades.md",
        "tests/corpus",
        r"(\d+ of \d+) (exact)",
        ("make", "upgrades"),
    ),
    _Program(
        "matrix",
        "Each feature is exact on each supported version of Spark.",
        "docs/compatibility.md",
        "tests/matrix",
        "",
        ("make", "matrix"),
    ),
    _Program(
        "soak",
        "Hours of epochs whose drivers are killed leave nothing behind.",
        "reports/soak.md",
        "tests/faults",
        r"([\d,]+) (epochs)$",
        ("make", "soak"),
    ),
    _Program(
        "real-time-soak",
        "An hour in real-time mode loses and duplicates nothing, and leaves nothing behind.",
        "reports/real-time-soak.md",
        "tests/faults",
        r"([\d,]+) (records went in|came out)",
        ("make", "real-time-soak"),
    ),
)


def stages() -> list[Stage]:
    """All of them, the slow tests first."""
    programs = [
        Stage(program.name, program.claim, program.evidence, (program.own,), program.run)
        for program in _PROGRAMS
    ]
    return [*_slow_tests(), *programs]


@cache
def _connector() -> str:
    return connector_digest(ROOT)


def _slow_tests() -> list[Stage]:
    found = []
    for folder in _FOLDERS:
        for file in sorted((ROOT / folder).glob("test_*.py")):
            text = file.read_text(encoding="utf-8")
            if _SLOW.search(text):
                claim = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
                path = f"{folder}/{file.name}"
                found.append(Stage(file.stem, claim, path, (path,), _tests(path)))
    return found


def _tests(path: str) -> Callable[[], tuple[bool, dict[str, Any]]]:
    def run() -> tuple[bool, dict[str, Any]]:
        found = run_tests(
            Path(sys.executable),
            ["-m", "slow", str(ROOT / path)],
            root=ROOT,
            folder=FOLDER,
            variables={},
            timeout_s=TIMEOUT_S,
        )
        return verdict(found)

    return run


def verdict(found: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether tests vouch for anything, and their figures. If all are skipped, they do not."""
    skipped = {"skipped": len(found["skipped"])} if found["skipped"] else {}
    failed = {"failed": found["failed"]} if found["failed"] else {}
    counts = {what: found[what] for what in ("kills", "records") if found[what]}
    figures = {"passed": found["passed"], **skipped, **failed, **counts}
    return not failed and found["passed"] > 0, figures


def figures_of(text: str, pattern: str) -> dict[str, Any]:
    """The figures that a pattern with a number and its name, in either order, finds in a report."""
    found: dict[str, Any] = {}
    for first, second in re.findall(pattern, text, re.MULTILINE) if pattern else ():
        value, name = (first, second) if first[0].isdigit() else (second, first)
        name = " ".join(name.split())
        found.setdefault(name, value)
    return found
