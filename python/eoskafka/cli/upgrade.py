"""`eoskafka upgrade`: can a job and its brokers move to this version?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from eoskafka.cli.brokers import Client, ConfigFile, client_settings, names, reaching
from eoskafka.cli.output import Exit, Format, OutputFormat, data, print_json
from eoskafka.upgrade import Report, Verdict, check

app = typer.Typer(
    help="Move a job to this version.",
    epilog="Example: eoskafka upgrade check --bootstrap-servers b:9092 --group payments",
    no_args_is_help=True,
)

_VERDICTS = {
    Verdict.FREE: "The group has no offsets: a new query can begin with it.",
    Verdict.IN_USE: "The group has no offsets yet, but a member or an open transaction may still "
    "commit some.",
    Verdict.READY: "The job can move: this version continues from its offsets.",
    Verdict.BROKERS_TOO_OLD: "The job cannot move yet: some brokers are too old.",
    Verdict.NEWER: "The job cannot move: a newer eoskafka has committed its offsets.",
    Verdict.OTHER: "The job can move in two steps: its offsets are those of another application, "
    "or of an older eoskafka, and must not be mixed with this version's.",
    Verdict.OVERWRITTEN: "The job cannot move yet: others (an application, a tool or an older "
    "eoskafka) have committed some of its offsets, so these do not say what has taken effect.",
    Verdict.MIXED: "This cannot be decided: the offsets belong to several queries.",
}


@app.callback()
def group() -> None:
    """Move a job to this version."""


@app.command(
    "check",
    epilog="Example: eoskafka upgrade check --bootstrap-servers b:9092 --group payments",
)
def check_group(
    group: Annotated[str, typer.Option(help="The query's kafka.group.id.")],
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            help="The addresses of the brokers that the query reads from, as host:port with commas "
            "between them."
        ),
    ],
    topics: Annotated[
        str,
        typer.Option(
            help="The query's topics, with commas between them. If the group has no offsets, the "
            "command needs this option to find out whether an open transaction holds some.",
            show_default="all topics of the group",
        ),
    ] = "",
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check whether a query and its brokers are ready for this version, and list the steps to take.

    The command changes nothing. The exit code is 0 if the query can move as it is, 1 if something
    has to be done first, and 3 if the brokers do not answer.
    """
    with reaching():
        found = check(bootstrap_servers, group, names(topics), client_settings(client, config))
    if output is Format.JSON:
        print_json({"group": group, **asdict(found)})
    else:
        data.print(_text(group, found), markup=False)
    if found.verdict not in (Verdict.FREE, Verdict.READY):
        raise typer.Exit(Exit.REFUSED)


def _text(group: str, found: Report) -> str:
    lines = []
    for broker in found.brokers:
        answer = f"Kafka {broker.release} or newer" if broker.release else "does not answer"
        lines.append(f"broker {broker.id} ({broker.address}): {answer}")
        lines += [f"  it {what}" for what in broker.lacks]
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.partitions.items()))
    ownership = f" (ownership={found.ownership})" if found.ownership else ""
    lines.append(f"offsets of {group}: {kinds or 'none'}{ownership}")
    lines += [f"member: {member}" for member in found.members]
    lines += [f"open transaction: {name}" for name in found.open_transactions]
    lines += ["", _VERDICTS[found.verdict]]
    lines += [f"{number}. {step}" for number, step in enumerate(found.steps, 1)]
    return "\n".join(lines)
