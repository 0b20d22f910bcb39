"""`eoskafka txn`: transactions whose owner died."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from eoskafka.cli import settings
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json
from eoskafka.errors import TransactionError
from eoskafka.transactions import Outcome, Resolution, resolve

app = typer.Typer(
    help="Transactions whose owner died.",
    epilog="Example: eoskafka txn resolve nightly-2026-11-21 --bootstrap-servers b:9092",
    no_args_is_help=True,
)


@app.callback()
def group() -> None:
    """Transactions whose owner died."""


@app.command(
    "resolve", epilog="Example: eoskafka txn resolve nightly --bootstrap-servers b:9092 --forget"
)
def resolve_write(
    write_id: Annotated[
        str, typer.Argument(help="Its writeId, or the id of one of its transactions.")
    ],
    bootstrap_servers: Annotated[str, typer.Option(help="Brokers of the output, host:port,...")],
    decision_topic: Annotated[
        str, typer.Option(help="As the job's decisionTopic.")
    ] = "__eoskafka_decisions",
    prefix: Annotated[
        str, typer.Option("--transactional-id-prefix", help="As the job's transactionalIdPrefix.")
    ] = "eoskafka",
    client: Annotated[
        list[str] | None,
        typer.Option(
            "-X", help="A client property, key=value; may be repeated.", metavar="KEY=VALUE"
        ),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Then remove the job's entry from the decision topic.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Forget it although a part of it is lost for good.")
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Settle a batch write whose driver died: commit all of it if it was decided, else end it.

    A job of this name that still runs is fenced and fails; nothing of it takes effect then. Ends
    with 1 if a part of it is lost to a timeout or no such job was ever begun, with 3 if the brokers
    do not answer.
    """
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        **{f"kafka.{key}": value for key, value in settings.parse(client).items()},
        "decisionTopic": decision_topic,
        "transactionalIdPrefix": prefix,
    }
    try:
        found = resolve(write_id, options, forget, give_up)
    except TransactionError as error:
        if error.condition in ("EOSKAFKA_UNREACHABLE", "EOSKAFKA_DECISIONS_UNREADABLE"):
            messages.print(str(error), markup=False)
            raise typer.Exit(Exit.UNREACHABLE) from error
        raise
    if output is Format.JSON:
        print_json({"write_id": write_id, **asdict(found)})
    else:
        data.print(_text(write_id, found), markup=False)
    if found.outcome in (Outcome.UNKNOWN, Outcome.INCOMPLETE):
        raise typer.Exit(Exit.REFUSED)


def _text(write_id: str, found: Resolution) -> str:
    text = {
        Outcome.UNKNOWN: "no write of this name was ever begun here; check the name, the brokers, "
        "--decision-topic and --transactional-id-prefix",
        Outcome.UNDECIDED: "nothing of it has taken effect, and nothing of it is open now; "
        "run the job again",
        Outcome.COMMITTED: f"all of it has taken effect, in {found.committed} transactions",
        Outcome.INCOMPLETE: f"it has taken effect, but {found.lost} of "
        f"{found.committed + found.lost} transactions had timed out before they could be "
        "committed; run the same job again, and it writes what they held, or give them up with "
        "--give-up",
    }[found.outcome]
    forgotten = found.forgotten and found.outcome is not Outcome.UNKNOWN
    return f"{write_id}: {text}" + ("; its entry is removed" if forgotten else "")
