"""`eoskafka offsets`: where a query stands in its topics, and how to move it on purpose."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from eoskafka import offsets
from eoskafka.cli.brokers import (
    Client,
    ConfigFile,
    Servers,
    Topics,
    client_settings,
    names,
    reaching,
)
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json, print_table
from eoskafka.offsets import Adoption, Move, Position, Situation, Standing, State
from eoskafka.offsets.commit import holders_of

_SERVERS = "--bootstrap-servers b:9092"

app = typer.Typer(
    help="Show and move the offsets of queries.",
    epilog=f"Example: eoskafka offsets show --group payments {_SERVERS}",
    no_args_is_help=True,
)

Group = Annotated[str, typer.Option(help="The query's kafka.group.id.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        help="A kafka.group.id. You can give this option several times.",
        show_default="every group with offsets of eoskafka",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
]


@app.callback()
def group() -> None:
    """Show and move the offsets of queries."""


def _standings(
    servers: str, groups: list[str] | None, topics: str, client: dict[str, str]
) -> list[Standing]:
    with reaching():
        chosen = groups or offsets.groups(servers, client)
        return [offsets.show(servers, name, names(topics), client) for name in chosen]


@app.command(epilog=f"Example: eoskafka offsets show --group payments {_SERVERS}")
def show(
    bootstrap_servers: Servers,
    groups: Groups = None,
    topics: Topics = "",
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the committed offset, its stamp, the end of the log and the lag of each partition.

    The stamp is the metadata that eoskafka commits with an offset: the query's identity, the scope,
    the topic's id and the epoch. An offset is pending while an open transaction holds a later one.
    The command changes nothing. The exit code is 3 if the brokers do not answer.
    """
    found = _standings(bootstrap_servers, groups, topics, client_settings(client, config))
    if output is Format.JSON:
        print_json({"groups": [asdict(each) for each in found]})
        return
    for each in found:
        data.print(_heading(each), markup=False)
        if each.positions:
            print_table(_table(each))
    if not found:
        messages.print("no group of this cluster has offsets of eoskafka")


def _heading(found: Standing) -> str:
    lines = [
        f"group {found.group}" + (f" (ownership={found.ownership})" if found.ownership else "")
    ]
    queries = sorted({each.identity for each in found.positions if each.identity})
    lines += [f"query: {identity}" for identity in queries]
    lines += [f"member: {member}" for member in found.members] or ["the group has no member"]
    lines += [f"open transaction: {name}" for name in found.pending_in]
    if not found.pending_in and any(each.state is State.PENDING for each in found.positions):
        lines.append(f"open transaction: {holders_of(found)}")
    if not any(each.committed is not None for each in found.positions):
        lines.append("the group has no offsets of topics that this user may describe")
    return "\n".join(lines)


def _table(found: Standing) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("topic", "partition", "committed", "state", "stamp", "end", "lag"):
        table.add_column(name, justify="left" if name in ("topic", "state", "stamp") else "right")
    for each in found.positions:
        table.add_row(
            each.topic,
            str(each.partition),
            "-" if each.committed is None else str(each.committed),
            each.state.value,
            _stamp(each),
            str(each.end) + (f" (+{each.open_records} open)" if each.open_records else ""),
            "-" if each.lag is None else str(each.lag),
        )
    return table


def _stamp(each: Position) -> str:
    if each.state is State.NONE:
        return "-"
    if not each.identity:
        return {"none": "none: another application's"}.get(each.kind, f"{each.kind} eoskafka")
    text = f"{each.scope}, batch {each.epoch}" if each.epoch != -1 else f"{each.scope}, start"
    return text + ("" if each.is_same_topic else ", of a topic that was deleted since")


@app.command(epilog=f"Example: eoskafka offsets lag {_SERVERS}")
def lag(
    bootstrap_servers: Servers,
    groups: Groups = None,
    topics: Topics = "",
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the lag of each group, by topic.

    The lag counts the offsets up to the last stable offset, which is how far a read_committed query
    can read now. Records after the first open transaction are therefore not counted. The command
    changes nothing. The exit code is 1 if a group has no offsets, and 3 if the brokers do not
    answer.
    """
    rows = []
    standings = _standings(bootstrap_servers, groups, topics, client_settings(client, config))
    for found in standings:
        by_topic: dict[str, list[Position]] = defaultdict(list)
        for each in found.positions:
            by_topic[each.topic].append(each)
        for topic, positions in sorted(by_topic.items()):
            behind = [each.lag for each in positions if each.lag is not None]
            rows.append(
                {
                    "group": found.group,
                    "topic": topic,
                    "partitions": len(positions),
                    "without_offset": len(positions) - len(behind),
                    "lag": sum(behind),
                    "max_lag": max(behind, default=0),
                }
            )
    if output is Format.JSON:
        print_json({"topics": rows})
    elif rows:
        table = Table(box=None, pad_edge=False)
        for name in ("group", "topic", "partitions", "without offset", "lag", "greatest"):
            table.add_column(name, justify="left" if name in ("group", "topic") else "right")
        for row in rows:
            table.add_row(*map(str, row.values()))
        print_table(table)
    empty = [each.group for each in standings if not each.positions]
    for group in empty:
        messages.print(
            f"group {group} has no offsets of topics that this user may describe; check its name",
            markup=False,
        )
    if empty:
        raise typer.Exit(Exit.REFUSED)


@app.command(
    epilog="Example: eoskafka offsets reset --group payments --to 2026-11-21T09:30:00Z "
    f"{_SERVERS} --dry-run"
)
def reset(
    bootstrap_servers: Servers,
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            help="The new offsets: earliest, latest, a time (ISO 8601 with a time zone, or "
            "milliseconds "
            'since 1970), or JSON such as {"topic":{"0":23}}.'
        ),
    ],
    topics: Topics = "",
    client: Client = None,
    config: ConfigFile = None,
    dry_run: DryRun = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Move the offsets of a stopped query, so that it replays or skips records.

    This is for queries in task scope. The next start continues at the new offsets, with the same
    checkpoint. A time stands for the first record at or after it, or for the end of a partition
    without such a record. The exit code is 1 if a driver is in the group (stop it), or if an open
    transaction holds offsets of the group (`txn list` shows it), and 3 if the brokers do not
    answer.
    """
    with reaching():
        moves = offsets.reset(
            bootstrap_servers, group, to, names(topics), client_settings(client, config), dry_run
        )
    if output is Format.JSON:
        print_json({"group": group, "dry_run": dry_run, "moves": [asdict(m) for m in moves]})
        return
    print_table(_moves(moves))
    what = "would be moved" if dry_run else "moved"
    rest = "others already had this offset, or have none and are read from their beginning"
    messages.print(f"{len(moves)} partitions {what}; {rest}", markup=False)


def _moves(moves: tuple[Move, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("topic", "partition", "before", "after"):
        table.add_column(name, justify="left" if name == "topic" else "right")
    for each in moves:
        table.add_row(each.topic, str(each.partition), str(each.before), str(each.after))
    return table


@app.command(
    epilog=f"Example: eoskafka offsets adopt /checkpoints/payments --group payments {_SERVERS}"
)
def adopt(
    checkpoint: Annotated[
        str,
        typer.Argument(help="The query's checkpointLocation: a folder, or a URL such as s3://..."),
    ],
    bootstrap_servers: Servers,
    group: Annotated[
        str, typer.Option(help="The query's kafka.group.id, if its checkpoint does not name it.")
    ] = "",
    topics: Topics = "",
    source: Annotated[
        str | None,
        typer.Option(
            help="Needed if the query has several sources: the name of the source, or its number, "
            "counted from 0."
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take over the offsets of a query whose checkpoint is lost. That query must not "
            "run again.",
        ),
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            help="Where to continue if offsets were deleted or replaced, as JSON such as "
            '{"topic":{"0":23}}.'
        ),
    ] = "",
    client: Client = None,
    config: ConfigFile = None,
    dry_run: DryRun = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check whether a query can start on its checkpoint, and assign the group's offsets to it.

    If another application committed the group's offsets, or a tool has set them, the command marks
    them as belonging to the query. If the query has run before and its own offsets were
    overwritten, say with --at where it continues. A checkpoint of the built-in connector, or of a
    query with another sink than eoskafka, is only checked, and nothing is changed. The exit code is
    1 if the query could not continue, and 3 if the brokers do not answer.
    """
    with reaching():
        found = offsets.adopt(
            bootstrap_servers,
            checkpoint,
            group,
            names(topics),
            source,
            take_over,
            at,
            client_settings(client, config),
            dry_run,
        )
    if output is Format.JSON:
        print_json({"checkpoint": checkpoint, "dry_run": dry_run, **asdict(found)})
    else:
        data.print(_adoption(checkpoint, found, dry_run), markup=False)


def _adoption(checkpoint: str, found: Adoption, dry_run: bool) -> str:
    lines = {
        Situation.READY: [
            f"Nothing has to be done: the query of group {found.group} can start as it is."
        ],
        Situation.BUILT_IN: [
            "This is a checkpoint of the built-in connector. The query can start with it here, "
            'with format("eoskafka") and the same options.'
        ],
        Situation.OTHER_SINK: [
            "The log of this checkpoint says where the query continues: the query has run with "
            "eoskafka's source and another sink, such as foreachBatch. It can start as it is."
        ],
        Situation.ADOPTED: [
            f"{len(found.moves)} offsets of group {found.group} "
            + ("would be given" if dry_run else "were given")
            + f" to this query; start it with kafka.group.id={found.group} and this checkpoint."
        ],
    }[found.situation]
    lines.append(f"It continues at {found.start}")
    if found.is_new:
        lines.append(
            f"There was no checkpoint at {checkpoint}; "
            + ("it would be created. " if dry_run else "it has been created. ")
            + "Only a query with exactly this checkpointLocation continues from these offsets. For "
            "another path, repeat this command with that path and --take-over."
        )
    if found.without_offset:
        lines.append(
            f"{found.without_offset} partitions have no offset: they are read from their beginning."
        )
    if found.open_batch is not None and found.situation is Situation.OTHER_SINK:
        lines.append(
            f"Batch {found.open_batch} was not finished. Start the query with the connector and "
            "the sink that began it. They run the batch again: eoskafka does not repeat a write "
            "that was decided, but any other sink may write its records twice."
        )
    elif found.open_batch is not None:
        lines.append(
            f"Batch {found.open_batch} was not finished, and the built-in sink is at-least-once: "
            f"the records that it has written of these {found.open_records} offsets are written "
            "again. To avoid that, let the built-in connector finish the batch, and stop it "
            "between two batches."
        )
    return "\n".join(lines)
