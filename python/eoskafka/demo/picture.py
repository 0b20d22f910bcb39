"""The picture of a comparison: each connector's duplicates over its run, and its kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from eoskafka.bench.plots import save
from eoskafka.plots import OTHERS, OURS

_MARKS = {"executor": "v", "driver": "X"}
_KILL: dict[str, Any] = {
    "color": "#b04040",
    "linestyle": "none",
    "markersize": 7,
    "zorder": 3,
    "clip_on": False,
}
# Room for the names at the ends of the lines, as a part of the longest one.
_ROOM = 1.4


def draw(result: dict[str, Any], file: Path) -> None:
    """Draw a comparison.

    Args:
        result: what `eoskafka demo --compare --format json` prints.
        file: its suffix says in what form, `.png` or `.svg` for instance.
    """
    figure, axes = plt.subplots(figsize=(9, 3.6))
    last = 0.0
    for name, of in result["connectors"].items():
        seconds = [moment["seconds"] for moment in of["history"]]
        duplicates = [moment["duplicates"] for moment in of["history"]]
        last = max(last, seconds[-1])
        ours = name == "eoskafka"
        axes.plot(
            *(seconds, duplicates),
            color=OURS if ours else OTHERS,
            linewidth=3,
            drawstyle="steps-post",
            clip_on=False,
        )
        for victim, moment in _kills(of):
            axes.plot(seconds[moment], duplicates[moment], _MARKS[victim], **_KILL)
        axes.annotate(
            f"{name}:\n{of['duplicated']:,} duplicates, {of['lost']:,} lost",
            (seconds[-1], duplicates[-1]),
            # Above eoskafka's, if both lines end at zero.
            xytext=(8, 3 if ours or duplicates[-1] else 36),
            textcoords="offset points",
            va="bottom",
            fontweight="bold" if ours else "normal",
            annotation_clip=False,
        )
    for victim, mark in _MARKS.items():
        axes.plot([], [], mark, label=f"{victim} killed", **_KILL)
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    axes.set_title(
        f"{result['records']:,} records, the same kills for each connector (seed {result['seed']})",
        fontsize=10,
        loc="left",
    )
    axes.set_xlabel("seconds since the job began to read")
    axes.set_ylabel("duplicates in the output")
    axes.set_xlim(0, last * _ROOM)
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= last])
    axes.set_ylim(0, max(10, 1.15 * axes.get_ylim()[1]))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, file)


def _kills(of: dict[str, Any]) -> list[tuple[str, int]]:
    """Who was killed, and the first moment of the history after that."""
    return [
        (kill["victim"], next(i for i, each in enumerate(of["history"]) if each["kills"] > number))
        for number, kill in enumerate(of["kills"])
    ]
