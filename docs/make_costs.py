"""The tables of docs/sizing.md with what a batch costs the brokers, from `make costs`."""

from __future__ import annotations

from eoskafka.sizing import costs

SCOPES = {"task": "Task scope", "epoch": "Epoch scope"}
COSTS = {
    "requests": "requests",
    "markers": "markers in the output",
    "transactionLogBytes": "bytes in the transaction log",
    "offsetsBytes": "bytes in `__consumer_offsets`",
    "decisionBytes": "bytes in the decision topic",
}
PARTS = ("batch", "task", "input", "output")
HEAD = (
    "| {scope}: cost | of each batch | of each task | of each input partition "
    "| of each task and output partition | error of the fit |\n|---|---|---|---|---|---|"
)


def table() -> str:
    """A table for each scope."""
    return "\n\n".join(
        "\n".join((HEAD.format(scope=title), *(_row(scope, name) for name in COSTS)))
        for scope, title in SCOPES.items()
    )


def _row(scope: str, name: str) -> str:
    fit = costs()["fits"][scope][name]
    numbers = " | ".join(f"{fit[part]:,.1f}" for part in PARTS)
    return f"| {COSTS[name]} | {numbers} | {fit['away']:.0%} |"
