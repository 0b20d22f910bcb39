"""`eoskafka dead-letters`: what failed, and how it goes back to its topic."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.table import Table

from eoskafka import replay as letters
from eoskafka._text import printable
from eoskafka.brokers.connection import Connection
from eoskafka.cli.brokers import Client, ConfigFile, Servers, client_settings, reaching
from eoskafka.cli.output import Format, OutputFormat, data, messages, print_json, print_table

_SERVERS = "--bootstrap-servers b:9092"

app = typer.Typer(
    help="Show dead letters, and write them back to their topics.",
    epilog=f"Example: eoskafka dead-letters show payments-dead {_SERVERS}",
    no_args_is_help=True,
)

Topic = Annotated[str, typer.Argument(help="The topic of the dead letters.", metavar="TOPIC")]


@app.callback()
def group() -> None:
    """Show dead letters, and write them back to their topics."""


@app.command(epilog=f"Example: eoskafka dead-letters show payments-dead {_SERVERS}")
def show(
    topic: Topic,
    bootstrap_servers: Servers,
    limit: Annotated[
        int, typer.Option(help="How many of the newest dead letters to show.", min=1)
    ] = 100,
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the newest dead letters of a topic: where each one came from, and why.

    The command reads the whole topic with isolation.level=read_committed, and changes nothing. The
    exit code is 3 if the brokers do not answer.
    """
    with reaching():
        cluster = Connection(bootstrap_servers, client_settings(client, config))
        found, count = letters.newest(cluster, topic, limit)
    if output is Format.JSON:
        print_json({"dead_letters": [asdict(each) for each in found], "count": count})
        return
    if found:
        print_table(_table(found))
    messages.print(f"{len(found):,} of {count:,} dead letters", markup=False)


def _table(found: list[letters.DeadLetter]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("written", "dead letter", "source", "query", "key", "reason"):
        table.add_column(name)
    for each in found:
        written = datetime.fromtimestamp(each.written_ms / 1_000, timezone.utc)
        table.add_row(
            f"{written:%Y-%m-%d %H:%M:%S}Z",
            f"{each.topic}-{each.partition}, {each.offset}",
            f"{each.source_topic}-{each.source_partition}, {each.source_offset}"
            if each.source_topic
            else "not known",
            printable(each.query or "-"),
            printable("-" if each.key is None else each.key),
            printable(each.reason),
        )
    return table


@app.command(
    epilog=f"Example: eoskafka dead-letters replay payments-dead --from-beginning {_SERVERS}"
)
def replay(
    topic: Topic,
    bootstrap_servers: Servers,
    to: Annotated[
        str,
        typer.Option(
            help="The topic to which all dead letters are written.",
            show_default="the topic from which each one came",
        ),
    ] = "",
    group: Annotated[
        str,
        typer.Option(
            help="The consumer group whose offsets say which dead letters were replayed. It is "
            "also the transactional id.",
            show_default="eoskafka-replay-TOPIC",
        ),
    ] = "",
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="Begin at the first dead letter of each partition of which the group has no "
            "offset. The first replay needs this option.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="If dead letters were deleted before they were replayed, replay the others.",
        ),
    ] = False,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            help="A dead letter that is not written and counts as replayed, by its partition and "
            "offset in TOPIC. You can give this option several times.",
            metavar="PARTITION:OFFSET",
        ),
    ] = None,
    skip_reason: Annotated[
        list[str] | None,
        typer.Option(
            help="Dead letters whose reason contains TEXT are not written and count as replayed. "
            "You can give this option several times.",
            metavar="TEXT",
        ),
    ] = None,
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Write dead letters back to the topics from which they came, each exactly once.

    Records and the offsets of the group are committed in the same transactions. If the command is
    killed, run it again: it continues after the last transaction that was committed. It replays
    the dead letters that were there when it began. They stay in their topic. Key, value and headers
    are those of the source's record; the timestamp is the present time. The exit code is 1 if the
    replay was refused, and 3 if the brokers do not answer.

    All readers of a topic read what is written back to it. Give --to if other readers have
    processed these records already, or if the source's topic is on another cluster: the command
    writes to the cluster of TOPIC. Each query needs a topic of dead letters of its own.
    """
    skipped = _places(skip)
    if "" in (skip_reason or []):
        raise typer.BadParameter("must not be empty", param_hint="--skip-reason")
    with reaching():
        cluster = Connection(bootstrap_servers, client_settings(client, config))
        written = letters.replay(
            cluster,
            topic,
            group=group or f"eoskafka-replay-{topic}",
            to=to,
            from_beginning=from_beginning,
            accept_loss=accept_loss,
            skip=skipped,
            skip_reasons=skip_reason or (),
        )
    if output is Format.JSON:
        print_json({"replayed": written})
    else:
        data.print(f"{written:,} dead letters were replayed")


def _places(skip: list[str] | None) -> set[tuple[int, int]]:
    found = set()
    for each in skip or []:
        match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,18})", each)
        if match is None:
            raise typer.BadParameter(
                f"'{each}' does not have the form PARTITION:OFFSET", param_hint="--skip"
            )
        found.add((int(match[1]), int(match[2])))
    return found
