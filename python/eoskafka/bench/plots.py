"""A picture of a benchmark's result, from its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from eoskafka.bench.peers import REAL_TIME
from eoskafka.plots import OTHERS, OURS

# Text as text, which a reader of an .svg can search.
mpl.rcParams["svg.fonttype"] = "none"

_DPI = 130


def draw(result: dict[str, Any], file: Path) -> None:
    """Draw the result of `throughput`, `latency`, `interval` or `scale`.

    Args:
        result: what `as_json` of its report gives.
        file: its suffix says in what form, `.png` or `.svg` for instance.
    """
    kinds = {
        "throughput": _throughput,
        "latency": _latency,
        "interval": _interval,
        "scale": _scale,
    }
    save(kinds[result["benchmark"]](result), file)


def save(figure: Any, file: Path) -> None:
    """Write a figure of pyplot's to a file, and close it."""
    figure.tight_layout()
    figure.savefig(file, dpi=_DPI)
    plt.close(figure)


def _throughput(result: dict[str, Any]) -> Any:
    peers = {label: of for label, of in result["peers"].items() if of["rows_per_s"]}
    figure, (rows, cpu) = plt.subplots(1, 2, figsize=(10, 0.5 * len(peers) + 1.5), sharey=True)
    colours = [_colour(label) for label in peers]
    medians = [of["rows_per_s"]["median"] / 1e3 for of in peers.values()]
    spread = _beyond(medians, [of["rows_per_s"] for of in peers.values()])
    rows.barh(list(peers), medians, xerr=spread, color=colours, ecolor="#555555")
    rows.set_xlabel("thousand rows per second (median, least, greatest)")
    limit = (result["limits"] or {}).get("both")
    if limit:
        rows.axvline(limit["median"] / 1e3, color="#b04040", linestyle="--")
        rows.set_title("dashed: reading alone, then writing alone", fontsize=9)
    cpu.barh(
        list(peers), [of["cpu_s_per_million"]["median"] for of in peers.values()], color=colours
    )
    cpu.set_xlabel("CPU seconds per million rows")
    rows.invert_yaxis()
    return figure


def _latency(result: dict[str, Any]) -> Any:
    peers = {label: of for label, of in result["peers"].items() if of["p50_ms"]}
    figure, axes = plt.subplots(figsize=(8, 0.6 * len(peers) + 1.5))
    colours = [_colour(label) for label in peers]
    axes.barh(
        list(peers), [of["p99_ms"]["median"] for of in peers.values()], color=colours, alpha=0.4
    )
    axes.barh(list(peers), [of["p50_ms"]["median"] for of in peers.values()], color=colours)
    axes.set_xlabel("milliseconds: p50 dark, p99 light")
    axes.invert_yaxis()
    return figure


def _interval(result: dict[str, Any]) -> Any:
    figure, (latency, rows) = plt.subplots(1, 2, figsize=(11, 4.5))
    of_peer: dict[str, list[dict[str, Any]]] = {}
    for each in result["intervals"]:
        # Results of former versions have eoskafka alone, and do not name it.
        of_peer.setdefault(each.get("peer", REAL_TIME.label), []).append(each)
    for marker, (label, of) in zip("os^Dv", of_peer.items(), strict=False):
        for name, line in (("p50", "-"), ("p99", "--")):
            found = [each for each in of if each[f"{name}_ms"]]
            latency.plot(
                [each["interval_ms"] for each in found],
                [each[f"{name}_ms"]["median"] for each in found],
                marker + line,
                color=_colour(label),
                label=f"{label}, {name}",
            )
        found = [each for each in of if each["rows_per_s"]]
        medians = [each["rows_per_s"]["median"] / 1e3 for each in found]
        rows.errorbar(
            [each["interval_ms"] for each in found],
            medians,
            yerr=_beyond(medians, [each["rows_per_s"] for each in found]),
            fmt=f"{marker}-",
            capsize=3,
            color=_colour(label),
            label=label,
        )
    latency.set_ylabel("milliseconds, end to end")
    rows.set_ylabel("thousand rows per second, of a backlog")
    for axes in (latency, rows):
        axes.set_xlabel("milliseconds between two commits")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
    return figure


def _scale(result: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    for producers, colour in (("per slot", OURS), ("per partition", OTHERS)):
        cases = [
            case
            for case in result["cases"]
            if (case["part"], case["producers"]) == ("partitions", producers) and case["rows_per_s"]
        ]
        sizes = [case["size"] for case in cases]
        name = f"a producer {producers}"
        rows = [case["rows_per_s"]["median"] / 1e3 for case in cases]
        axes[0].plot(sizes, rows, "o-", color=colour, label=name)
        for axis, field in ((axes[1], "transactional_ids"), (axes[2], "producer_states")):
            axis.plot(sizes, [case[field] for case in cases], "o-", color=colour, label=name)
            axis.set_yscale("log")
    for axis, title in zip(
        axes,
        ("thousand rows per second", "producers", "producers in the broker's memory"),
        strict=True,
    ):
        axis.set_xscale("log")
        axis.set_xlabel("input partitions")
        axis.set_title(title, fontsize=10)
    axes[0].set_ylim(bottom=0)
    axes[0].legend(fontsize=8)
    return figure


def _beyond(medians: list[float], spreads: list[dict[str, float]]) -> list[list[float]]:
    """How far least and greatest are from medians, in thousands."""
    return [
        [abs(spread[end] / 1e3 - median) for median, spread in zip(medians, spreads, strict=True)]
        for end in ("least", "greatest")
    ]


def _colour(label: str) -> str:
    return OURS if label.startswith("eoskafka") else OTHERS
