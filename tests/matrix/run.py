"""Runs the crash tests on each Spark version, for docs/compatibility.md: `make matrix`.

`python -m matrix.run [VERSION ...] [--feature NAME] [--java RELEASE] [--short]`: without a VERSION,
all of them run. Each version is installed into an environment of its own, `build/matrix/<version>`,
with the pandas, pyarrow and delta-spark that fit it, and has this checkout's connector. A cell is a
feature on a version: a group of tests, most of which kill processes, and all of which count what
came out with a reader that shares no code with the connector. Results go into
`docs/compatibility.json`, cell by cell; a cell that is there with the same sources of the connector
and of its tests is not run again unless `--again` is given.

The Java is the one on the path. Some cells also run on other releases of Java: on 21, which a
package of pip brings, and on 25 where `/usr/lib/jvm` has it. `--java` runs these cells alone.

`--short` runs a few tests of each feature on the oldest and the newest version, both at the same
time, and writes nothing: CI does. `--install` only makes the environments that it needs.

Exit code 0: every test of every cell has passed. 1: one has not. 2: usage.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from eoskafka import sparks
from eoskafka._jar import ensure_built, sources_digest
from eoskafka.bench.peers import peer_jars
from harness import runs
from harness.archive import archive_options
from matrix.environments import FOLDER, java_home, python_of
from mutations.run import DIGEST_CHARS, ROOT, git, head
from rich.console import Console

RESULTS = ROOT / "docs" / "compatibility.json"
TESTS = ROOT / "tests" / "integration"
# Of one cell.
TIMEOUT_S = 3_600

# The newest release of each line, and those that managed platforms have.
LINES = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")
PLATFORMS = ("4.0.1", "4.1.1")
# Spark before 4.2 does not run on Java 25: its Hadoop asks for a call that is no longer there.
ON_JAVA = {"21": ("4.0.5", "4.3.0"), "25": ("4.2.1", "4.3.0")}
# `make test` is on the main version.
SHORT = (LINES[0], LINES[-1])


@dataclass(frozen=True)
class Feature:
    """A column of the table.

    Attributes:
        name: as the page has it.
        files: whose tests run.
        short: tests of these files that the short form runs.
        not_on: by the line of a Spark version, why it does not have the feature.
        with_slow: whether slow tests run, too.
        on_platforms: whether it also runs on the versions of managed platforms, and on other
            releases of Java.
    """

    name: str
    files: tuple[str, ...]
    short: tuple[str, ...] = ()
    not_on: tuple[tuple[str, str], ...] = ()
    with_slow: bool = False
    on_platforms: bool = False


FEATURES = (
    Feature(
        "task scope",
        ("test_task_scope_crashes", "test_speculation", "test_task_scope_runs"),
        (
            "test_task_scope_crashes.py::"
            "test_driver_and_executors_killed_with_a_transaction_open_do_not_block_the_restart",
        ),
        on_platforms=True,
    ),
    Feature(
        "epoch scope",
        ("test_epoch_scope_crashes", "test_epoch_timeouts", "test_epoch_scope"),
        (
            "test_epoch_scope_crashes.py::"
            "test_an_executor_killed_at_any_point_before_it_has_reported[after-flush]",
        ),
        on_platforms=True,
    ),
    Feature(
        "batch writes",
        ("test_batch_writes",),
        ("test_batch_writes.py::test_a_named_write_takes_effect_once",),
    ),
    Feature(
        "`foreachBatch`",
        ("test_foreach_batch", "test_foreach_batch_threads"),
        (
            "test_foreach_batch_threads.py::"
            "test_a_thread_of_a_pool_writes_the_batch_that_runs_and_not_the_one_that_created_it",
        ),
    ),
    Feature(
        "takeover from the built-in connector",
        (
            "test_takeover",
            "test_both_checkpoints",
            "test_both_records",
            "test_both_sources",
            "test_both_topics",
        ),
        ("test_takeover.py::test_an_open_batch_that_was_run_and_is_not_logged_is_taken_over",),
        not_on=(("4.3", "Maven Central has no built-in connector for Spark 4.3"),),
    ),
    Feature(
        "real-time mode",
        ("test_real_time", "test_real_time_crashes"),
        ("test_real_time.py::test_the_last_records_do_not_wait_for_the_next_ones",),
        not_on=(
            ("3.5", "Spark 3.5 has no real-time mode"),
            ("4.0", "Spark 4.0 has no real-time mode"),
        ),
    ),
    Feature(
        "plans and their scope",
        ("test_rotation", "test_scope_refusals"),
        ("test_rotation.py::test_an_operator_that_is_not_known_is_in_epoch_scope",),
        on_platforms=True,
    ),
    Feature(
        "shared groups",
        ("test_shared_ownership", "test_shared_rebalances", "test_shared_refusals"),
    ),
    Feature(
        "Delta",
        ("test_delta",),
        with_slow=True,
        not_on=(("4.3", "no delta-spark is there for Spark 4.3"),),
    ),
)


@dataclass(frozen=True)
class Cell:
    """A feature on a version.

    Attributes:
        version: of Spark.
        feature: it.
        java: the release of Java, if it is not the one on the path.
    """

    version: str
    feature: Feature
    java: str | None = None

    @property
    def row(self) -> str:
        """What the results have it under."""
        return f"{self.version} on Java {self.java}" if self.java else self.version

    @property
    def line(self) -> str:
        """Major and minor version."""
        return sparks.text(sparks.line(self.version))

    @property
    def reason(self) -> str | None:
        """Why there is nothing to run."""
        return dict(self.feature.not_on).get(self.line)

    def sources(self) -> str:
        """A digest of the connector and of this cell's tests."""
        digest = hashlib.sha256(sources_digest(ROOT).encode())
        for name in self.feature.files:
            digest.update((TESTS / f"{name}.py").read_bytes())
        return digest.hexdigest()[:DIGEST_CHARS]

    def run(self) -> dict[str, Any]:
        """Run its tests, and say what came of them."""
        began = time.monotonic()
        files = [f"{name}.py" for name in self.feature.files]
        return {
            **run_tests(
                self.version,
                files,
                self.feature.with_slow,
                java_home(self.java) if self.java else None,
            ),
            "seconds": round(time.monotonic() - began),
            "date": datetime.now(timezone.utc).date().isoformat(),
            "commit": commit(),
            "sources": self.sources(),
            "java": self.java or java_version(),
            "python": platform.python_version(),
        }


def run_tests(
    version: str, tests: Sequence[str], with_slow: bool = False, java: Path | None = None
) -> dict[str, Any]:
    """Run tests on a version of Spark; how many passed, which did not, and what they counted."""
    slow = () if with_slow else ("-m", "not slow")
    return runs.run_tests(
        python_of(version),
        [*slow, *(str(TESTS / test) for test in tests)],
        root=ROOT,
        folder=FOLDER / f"results-{version}",
        variables={"JAVA_HOME": str(java)} if java else {},
        timeout_s=TIMEOUT_S,
    )


def commit() -> str:
    """This checkout's, with a note if files have changed since."""
    is_changed = git("status", "--porcelain", "--", "jvm-shim", "python", "tests")
    return f"{head()} and changes" if is_changed else head()


def java_version() -> str:
    """Major version of the Java that Spark runs on."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "(\d+)', said)
    return found[1] if found else "?"


def cells(versions: Sequence[str], features: Sequence[str], java: str | None) -> list[Cell]:
    """Those that were asked for.

    Args:
        java: only the cells on this release of Java.
    """
    places: list[tuple[str, str | None]] = [] if java else [(version, None) for version in versions]
    places += [
        (version, release)
        for release, on_it in ON_JAVA.items()
        if java in (None, release)
        for version in versions
        if version in on_it
    ]
    return [
        Cell(version, feature, release)
        for version, release in places
        for feature in FEATURES
        if (not features or feature.name in features)
        and (feature.on_platforms or (version not in PLATFORMS and not release))
    ]


def load() -> dict[str, Any]:
    """The results so far."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def save(part: str, row: str, column: str, value: Any) -> None:
    """Put one value in the place of the former one."""
    everything = load()
    everything.setdefault(part, {}).setdefault(row, {})[column] = value
    RESULTS.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", nargs="*", metavar="VERSION", help="of Spark, such as 4.0.5")
    parser.add_argument("--feature", action="append", default=[], help="only this one")
    parser.add_argument("--java", choices=ON_JAVA, help="only the cells on this release")
    parser.add_argument("--short", action="store_true", help="a few tests, no results")
    parser.add_argument("--install", action="store_true", help="what --short needs; runs nothing")
    parser.add_argument("--again", action="store_true", help="also what has a result")
    given = parser.parse_args()
    if given.install:
        for version in SHORT:
            archive_options(str(python_of(version)))
        return 0
    console = Console()
    ensure_built()
    # Before any test: a runtime without a compiler cannot build them.
    peer_jars()
    if given.short:
        with ThreadPoolExecutor(len(SHORT)) as pool:
            verdicts = [*pool.map(lambda version: run_short(version, console), SHORT)]
        return 0 if all(verdicts) else 1
    versions = given.version or LINES + PLATFORMS
    known = load().get("results", {})
    good = True
    for cell in cells(versions, given.feature, given.java):
        if cell.java and java_home(cell.java) is None:
            console.print(f"Spark {cell.row} is left out: this machine has no Java {cell.java}")
            continue
        name = f"Spark {cell.row}, {cell.feature.name}"
        former = known.get(cell.row, {}).get(cell.feature.name, {})
        if cell.reason:
            save("not_available", cell.feature.name, cell.line, cell.reason)
            continue
        if not given.again and former.get("sources") == cell.sources():
            console.print(f"[dim]{name}: there already[/]")
            good &= not former["failed"]
            continue
        result = cell.run()
        verdict = ", ".join(result["failed"]) or "all passed"
        console.print(f"{name}: {result['passed']} tests, {result['seconds']} s: {verdict}")
        good &= not result["failed"]
        save("results", cell.row, cell.feature.name, result)
    return 0 if good else 1


def run_short(version: str, console: Console) -> bool:
    """Run the short form on a version; whether each test has passed."""
    found = run_tests(
        version,
        [
            test
            for feature in FEATURES
            if not Cell(version, feature).reason
            for test in feature.short
        ],
    )
    # As pytest has it, so that who counts tests counts these too.
    failed = f", {len(found['failed'])} failed" if found["failed"] else ""
    skipped = f", {len(found['skipped'])} skipped" if found["skipped"] else ""
    console.print(
        f"Spark {version}: {found['passed']} passed{failed}{skipped};"
        f" {found['kills']} kills, {found['records']:,} records counted"
    )
    return not found["failed"]


if __name__ == "__main__":
    sys.exit(main())
