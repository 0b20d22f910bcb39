"""Runs everything that a guarantee rests on and CI leaves out: `make prove`.

`python -m prove [STAGE ...] [--minutes N] [--again]`: without a STAGE all of them run, one at a
time. A stage whose result is there for the same sources is not run again unless `--again` is given,
so that an interrupted run continues. No stage begins more than N minutes after the start.
`--list` shows the stages, `--stale` those whose result is missing or older than what it vouches
for; neither runs anything. Results are in reports/proof.json, and on the page reports/proof.md.

Exit code 0: each stage that was to run has passed (`--list`, `--stale`: always). 1: one has failed,
or did not begin in time. 2: usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from eoskafka._jar import ensure_built

from prove.provenance import provenance
from prove.stages import ROOT, Stage, stages

RESULTS = ROOT / "reports" / "proof.json"
PAGE = ROOT / "reports" / "proof.md"


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stage", nargs="*", metavar="STAGE", help="its name, from --list")
    parser.add_argument("--minutes", type=float, help="begin no stage after this time")
    parser.add_argument("--again", action="store_true", help="also what has a result")
    parser.add_argument("--list", action="store_true", help="show the stages, run nothing")
    parser.add_argument("--stale", action="store_true", help="show what is stale, run nothing")
    given = parser.parse_args()
    known = {stage.name: stage for stage in stages()}
    if unknown := set(given.stage) - known.keys():
        parser.error(f"no such stage: {', '.join(sorted(unknown))}")
    chosen = [known[name] for name in given.stage] or list(known.values())
    results = load()
    if given.list:
        for stage in chosen:
            print(f"{stage.name:24} {stage.claim}")
        return 0
    if given.stale:
        old = [stage.name for stage in chosen if state(stage, results) != "current"]
        if old:
            print(f"Stale evidence ({len(old)} of {len(chosen)} stages): {', '.join(old)}")
        return 0
    ensure_built()
    return run(chosen, given.minutes, given.again)


def run(chosen: Sequence[Stage], minutes: float | None, again: bool) -> int:
    """Run these stages; the exit code."""
    began = time.monotonic()
    good = True
    for stage in chosen:
        former = load().get(stage.name, {})
        if not again and former.get("sources") == stage.sources and former.get("passed"):
            print(f"{stage.name}: passed before", flush=True)
            continue
        if minutes is not None and time.monotonic() - began > minutes * 60:
            print(f"{stage.name}: not begun, the time is over", flush=True)
            good = False
            continue
        print(f"{stage.name}: {stage.claim}", flush=True)
        at = provenance()
        started = time.monotonic()
        passed, figures = stage.run()
        save(
            stage.name,
            {
                "passed": passed,
                "figures": figures,
                "sources": stage.sources,
                "seconds": round(time.monotonic() - started),
                **at,
            },
        )
        print(f"    {'passed' if passed else 'FAILED'}: {in_words(figures)}", flush=True)
        good &= passed
    return 0 if good else 1


def state(stage: Stage, results: dict[str, Any]) -> str:
    """`current`, `stale`, `failed` or `missing`."""
    result = results.get(stage.name)
    if result is None:
        return "missing"
    if not result["passed"]:
        return "failed"
    return "current" if result["sources"] == stage.sources else "stale"


def load() -> dict[str, Any]:
    """The results so far, by the stage's name."""
    if not RESULTS.is_file():
        return {}
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def save(name: str, result: dict[str, Any]) -> None:
    """Put a result in the place of the former one, and write the page anew."""
    results = {**load(), name: result}
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(stages(), results), encoding="utf-8")


def page(known: Sequence[Stage], results: dict[str, Any]) -> str:
    """The page on all stages."""
    rows = []
    for stage in known:
        result = results.get(stage.name)
        cells = [f"[{stage.name}](../{stage.evidence})", stage.claim]
        if result is None:
            cells += ["not run", "", "", ""]
        else:
            verdict = "" if result["passed"] else "**FAILED**; "
            changed = "" if result["is_clean"] else " and changes"
            cells += [
                verdict + in_words(result["figures"]),
                f"{result['commit']}{changed}",
                result["date"],
                f"{result['seconds']:,}",
            ]
        rows.append(f"| {' | '.join(cells)} |")
    current = sum(state(stage, results) == "current" for stage in known)
    passed = sum(bool(result["passed"]) for result in results.values())
    return f"""\
# Proof

Written by `make prove`. It runs what a guarantee rests on and CI leaves out: the slow tests of each
file, and the programs that write reports. A stage is stale once the connector's sources or its own
code have changed since it ran; `python -m prove --stale` lists those, and so does `make check`.
reports/proof.json also has each run's jar, versions and machine.

When this page was written, {passed} of {len(known)} stages had passed, and {current} of these
results were of the present sources.

| stage | claim | figures | commit | date | seconds |
|---|---|---|---|---|---|
{chr(10).join(rows)}
"""


def in_words(figures: dict[str, Any]) -> str:
    """Such as `12 passed, 3 kills`."""
    failed = figures.get("failed")
    words = [
        f"{value:,} {name}" if isinstance(value, int) else f"{value} {name}"
        for name, value in figures.items()
        if name != "failed"
    ]
    return ", ".join([*words, *([f"failed: {', '.join(failed)}"] if failed else [])])


if __name__ == "__main__":
    sys.exit(main())
