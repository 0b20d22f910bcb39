"""Runs pytest in a process of its own, for what runs groups of tests and keeps their results."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import tally


def run_tests(
    python: Path,
    arguments: Sequence[str],
    root: Path,
    folder: Path,
    variables: Mapping[str, str],
    timeout_s: float,
) -> dict[str, Any]:
    """Run tests; how many passed, which did not, and what they counted.

    Args:
        python: the interpreter, also that of Spark's Python workers.
        arguments: of pytest, such as the tests' files.
        root: the folder that it runs in.
        folder: for pytest's report and the counts.
        variables: of its environment, besides this process's own.
        timeout_s: for all of them.

    Returns:
        `passed`, a count; `failed`, their names; `skipped`, the reason by name; `kills` and
        `records`, as `tally` has them.

    Raises:
        SystemExit: pytest has left no report.
        subprocess.TimeoutExpired: as its name says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report, counts = folder / "report.xml", folder / "tally"
    report.unlink(missing_ok=True)
    counts.write_text("", encoding="utf-8")
    done = subprocess.run(
        [
            *(str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(f"--junitxml={report}", *arguments),
        ],
        cwd=root,
        env={
            **os.environ,
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
            tally.VARIABLE: str(counts),
            **variables,
        },
        check=False,
        timeout=timeout_s,
        capture_output=True,
        text=True,
    )
    if not report.is_file():
        raise SystemExit(f"pytest has left no report: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    found = outcomes(ET.parse(report).iter("testcase"))
    if found["failed"]:
        print(done.stdout[-10_000:], flush=True)
    return {**found, "kills": 0, "records": 0, **tally.totals(counts)}


def outcomes(cases: Iterable[ET.Element]) -> dict[str, Any]:
    """How many tests have passed, and which have failed or were skipped, with the reason."""
    passed = 0
    failed: list[str] = []
    skipped: dict[str, str] = {}
    for case in cases:
        name = str(case.get("name"))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif (skip := case.find("skipped")) is not None:
            skipped[name] = str(skip.get("message"))
        else:
            passed += 1
    return {"passed": passed, "failed": sorted(set(failed)), "skipped": skipped}
