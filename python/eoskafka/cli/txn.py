"""`eoskafka txn`: open transactions, whom they hold up, and how to end them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.table import Table

from eoskafka import transactions
from eoskafka.cli.brokers import (
    Client,
    ConfigFile,
    Servers,
    Topics,
    client_settings,
    java_settings,
    names,
    reaching,
)
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json, print_table
from eoskafka.cli.txn_text import text_of_job, text_of_write
from eoskafka.jobs import Outcome, resolve, resolve_checkpoint
from eoskafka.transactions import Blocked, Kind, Transaction

app = typer.Typer(
    help="Open transactions, and whom they hold up.",
    epilog="Example: eoskafka txn list --bootstrap-servers b:9092",
    no_args_is_help=True,
)


_SERVERS = "--bootstrap-servers b:9092"

Id = Annotated[str, typer.Argument(help="The transactional id.", metavar="ID")]
Prefix = Annotated[
    str,
    typer.Option(
        "--transactional-id-prefix", help="The transactionalIdPrefix of the query or job."
    ),
]


@app.callback()
def group() -> None:
    """Open transactions, and whom they hold up."""


@app.command("list", epilog=f"Example: eoskafka txn list {_SERVERS}")
def list_open(
    bootstrap_servers: Servers,
    prefix: Prefix = "eoskafka",
    everything: Annotated[
        bool, typer.Option("--all", help="Also list transactions of other applications.")
    ] = False,
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List open transactions, the oldest first. The command changes nothing."""
    with reaching():
        found = transactions.transactions(
            bootstrap_servers, prefix, everything, client_settings(client, config)
        )
    if output is Format.JSON:
        print_json({"transactions": [asdict(each) for each in found]})
        return
    if not found:
        messages.print("no open transaction that this user may describe")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("transactional id", "for", "state", "since", "age", "times out after"):
        table.add_column(name)
    for each in found:
        table.add_row(
            each.id, _purpose(each), each.state, _since(each), _age(each), _s(each.timeout_ms)
        )
    print_table(table)


def _purpose(each: Transaction) -> str:
    return {
        Kind.TASK: "a task",
        Kind.WRITER: "a writer",
        Kind.DECISIONS: "a decision",
        Kind.JOB: "a batch write",
        Kind.OTHER: "another application",
    }[each.kind]


def _since(each: Transaction) -> str:
    if each.started_ms is None:
        return "-"
    moment = datetime.fromtimestamp(each.started_ms / 1_000, timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _age(each: Transaction) -> str:
    return "-" if each.age_ms is None else _s(each.age_ms)


def _s(ms: int) -> str:
    return f"{ms / 1_000:.0f} s"


@app.command(epilog=f"Example: eoskafka txn describe eoskafka-payments-...-0 {_SERVERS}")
def describe(
    transactional_id: Id,
    bootstrap_servers: Servers,
    prefix: Prefix = "eoskafka",
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the owner and the age of a transaction, and which readers wait for it."""
    with reaching():
        found, held = transactions.describe(
            bootstrap_servers, transactional_id, prefix, client_settings(client, config)
        )
    if output is Format.JSON:
        print_json({**asdict(found), "blocked": [asdict(each) for each in held]})
        return
    lines = [
        f"{found.id}: {_purpose(found)}" + (f" of {found.owner}" if found.owner else ""),
        f"state {found.state}, since {_since(found)} ({_age(found)}), times out after "
        f"{_s(found.timeout_ms)}",
        f"producer {found.producer_id}, epoch {found.producer_epoch}",
        *(f"it has written to {topic}-{number}" for topic, number in found.partitions),
        *map(_held, held),
    ]
    data.print("\n".join(lines), markup=False)


def _held(each: Blocked) -> str:
    return (
        f"read_committed readers of {each.topic}-{each.partition} wait at {each.stable} of "
        f"{each.end}"
    )


@app.command(epilog=f"Example: eoskafka txn abort eoskafka-payments-...-0 {_SERVERS}")
def abort(
    transactional_id: Id,
    bootstrap_servers: Servers,
    prefix: Prefix = "eoskafka",
    decision_topic: Annotated[
        str, typer.Option(help="The query's decisionTopic.")
    ] = transactions.DEFAULT_DECISION_TOPIC,
    fence: Annotated[
        bool,
        typer.Option(
            "--fence",
            help="Needed for a transaction in epoch scope: also fence its query, which then stops. "
            "Otherwise the query could still commit the transaction.",
        ),
    ] = False,
    client: Client = None,
    config: ConfigFile = None,
) -> None:
    """Abort a transaction, so that none of its records or offsets takes effect.

    In task scope, a task that still uses the transaction fails, and Spark runs it again. The exit
    code is 1 if the transaction was not aborted: the message says why, and what to do.
    """
    with reaching():
        found = transactions.abort(
            bootstrap_servers,
            transactional_id,
            prefix,
            decision_topic,
            fence,
            client_settings(client, config),
        )
    end = (
        "was aborted; its query processes the uncommitted records again"
        if found.kind is Kind.TASK
        else "was aborted: none of its records or offsets has taken effect"
    )
    messages.print(f"{found.id} {end}", markup=False)


@app.command("find-hanging", epilog=f"Example: eoskafka txn find-hanging {_SERVERS}")
def find_hanging(
    bootstrap_servers: Servers,
    topics: Topics = "",
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List partitions where read_committed readers wait, and the transactions that they wait for.

    A transaction that no coordinator knows never ends by itself: an administrator must end it with
    Kafka's kafka-transactions.sh abort. Only a user who may describe every transactional id can
    tell. The command changes nothing. The exit code is 1 if it lists a transaction that no
    coordinator knows, or for which this is unknown.
    """
    with reaching():
        found = transactions.blocked(
            bootstrap_servers, names(topics), client_settings(client, config)
        )
    if output is Format.JSON:
        print_json({"blocked": [asdict(each) for each in found]})
    elif not found:
        messages.print("no reader of a topic that this user may describe waits for a transaction")
    else:
        table = Table(box=None, pad_edge=False)
        for name in ("topic", "partition", "readers wait at", "end", "for"):
            table.add_column(name)
        for each in found:
            table.add_row(
                each.topic,
                str(each.partition),
                str(each.stable),
                str(each.end),
                each.transactional_id or _without_id(each),
            )
        print_table(table)
    if any(each.is_unknown for each in found):
        messages.print(
            "This command cannot tell whether the unknown transactions hang: a coordinator did not "
            "answer, a broker that is cut off from the others has answered, or this user may not "
            "describe all transactional ids. Do not abort them, since their commit may be decided. "
            "Run this command when all brokers are up and connected, as a user with the right "
            "Describe on every TransactionalId.",
            markup=False,
        )
    if any(each.is_hanging or each.is_unknown for each in found):
        raise typer.Exit(Exit.REFUSED)


def _without_id(each: Blocked) -> str:
    if each.is_unknown:
        return f"unknown: producer {each.producer_id}"
    return (
        f"nobody: producer {each.producer_id} hangs; kafka-transactions.sh abort "
        f"--topic {each.topic} --partition {each.partition} --start-offset {each.stable}"
    )


@app.command(
    "resolve", epilog="Example: eoskafka txn resolve nightly --bootstrap-servers b:9092 --forget"
)
def resolve_write(
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            help="The addresses of the brokers that the job or query writes to, as host:port with "
            "commas between them."
        ),
    ],
    write_id: Annotated[
        str | None,
        typer.Argument(
            help="The writeId of a batch job, or one of its transactional ids. For a query, give "
            "--checkpoint instead."
        ),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="The checkpointLocation of a query, instead of a WRITE_ID.")
    ] = None,
    accept_loss: Annotated[
        int | None,
        typer.Option(
            "--accept-loss",
            metavar="EPOCH",
            min=0,
            help="With --checkpoint: accept that records of this epoch are lost because their "
            "transactions timed out, and let the query continue.",
        ),
    ] = None,
    of_write: Annotated[
        str | None,
        typer.Option(
            help="With --accept-loss: the writeId of the write in foreachBatch that has lost the "
            "records, if several writes have.",
        ),
    ] = None,
    decision_topic: Annotated[
        str, typer.Option(help="The job's decisionTopic.")
    ] = "__eoskafka_decisions",
    prefix: Annotated[
        str, typer.Option("--transactional-id-prefix", help="The job's transactionalIdPrefix.")
    ] = "eoskafka",
    client: Client = None,
    config: ConfigFile = None,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="With a WRITE_ID: afterwards remove its entry, so that the writeId can be used "
            "again. The entry stays if a part of the job's output is lost.",
        ),
    ] = False,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up",
            help="As --forget, but also if a part of the job's output is lost. The missing rows "
            "are then never written.",
        ),
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """End the transactions that a batch job or a query left open when its driver died.

    The command commits those whose commit was decided, and aborts the others. Stop the job or query
    first: if it is still running, the command fences it. The exit code is 1 if records are lost
    because of a timeout, if a transaction cannot be ended, or if no such job has ever begun; the
    message says which. It is 3 if the brokers do not answer.
    """
    if (write_id is None) == (checkpoint is None):
        raise typer.BadParameter("give either a WRITE_ID or --checkpoint")
    if checkpoint is None and accept_loss is not None:
        raise typer.BadParameter("--accept-loss goes with --checkpoint; for a job use --give-up")
    if of_write is not None and accept_loss is None:
        raise typer.BadParameter("--of-write goes with --accept-loss")
    if checkpoint is not None and (forget or give_up):
        raise typer.BadParameter("--forget and --give-up are for batch jobs")
    options = {
        **{f"kafka.{key}": value for key, value in java_settings(client, config).items()},
        "kafka.bootstrap.servers": bootstrap_servers,
        "decisionTopic": decision_topic,
        "transactionalIdPrefix": prefix,
    }
    if write_id is None:
        _resolve_checkpoint(str(checkpoint), options, accept_loss, of_write, output)
        return
    with reaching():
        found = resolve(write_id, options, forget, give_up)
    if output is Format.JSON:
        print_json({"write_id": write_id, **asdict(found)})
    else:
        data.print(text_of_job(write_id, found), markup=False)
    if found.outcome in (Outcome.UNKNOWN, Outcome.INCOMPLETE):
        raise typer.Exit(Exit.REFUSED)


def _resolve_checkpoint(
    checkpoint: str,
    options: dict[str, str],
    accept_loss: int | None,
    of_write: str | None,
    output: Format,
) -> None:
    with reaching():
        writes = resolve_checkpoint(checkpoint, options, accept_loss, of_write)
    if output is Format.JSON:
        print_json({"checkpoint": checkpoint, "writes": [asdict(write) for write in writes]})
    elif not writes:
        data.print(f"{checkpoint}: this checkpoint contains no write in epoch scope", markup=False)
    else:
        for write in writes:
            data.print(text_of_write(write), markup=False)
    is_accepted = any(
        write.accepted
        and write.epoch == accept_loss
        and (of_write is None or write.name.endswith(f"writeId '{of_write}'"))
        for write in writes
    )
    if accept_loss is not None and not is_accepted:
        have_lost = [write for write in writes if write.lost and write.epoch == accept_loss]
        messages.print(
            f"No loss was accepted: {len(have_lost)} writes have lost records of epoch "
            f"{accept_loss}. "
            + (
                "Select one of them with --of-write."
                if len(have_lost) > 1 or (have_lost and of_write is None)
                else "Run the command without --accept-loss to see what is lost."
            ),
            markup=False,
        )
    if any(write.error or (write.lost and not write.accepted) for write in writes) or (
        accept_loss is not None and not is_accepted
    ):
        raise typer.Exit(Exit.REFUSED)
