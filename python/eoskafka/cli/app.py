"""The root of the command tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from eoskafka import __version__, _jar, jar_path
from eoskafka.cli import bench, cluster, dead_letters, demo, offsets, txn, upgrade
from eoskafka.cli.doctor import doctor
from eoskafka.cli.output import Exit, data, messages
from eoskafka.cli.size import size
from eoskafka.cli.top import top
from eoskafka.cli.verify import verify
from eoskafka.errors import EosKafkaError

app = typer.Typer(
    name="eoskafka",
    help="Exactly-once Kafka for Spark Structured Streaming.",
    epilog="Example: eoskafka cluster start",
    no_args_is_help=True,
    # Rich's columns cut names and words short in a terminal of 80.
    rich_markup_mode=None,
    # Older releases of typer print local variables with an exception, and passwords are among them.
    pretty_exceptions_show_locals=False,
)
app.add_typer(cluster.app, name="cluster")
app.add_typer(bench.app, name="bench")
app.add_typer(offsets.app, name="offsets")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(txn.app, name="txn")
app.add_typer(upgrade.app, name="upgrade")
app.command(epilog="Example: eoskafka demo --seed 7 --keep")(demo.demo)
app.command(epilog="Example: eoskafka doctor --bootstrap-servers b:9092 --input payments")(doctor)
app.command(
    epilog="Example: eoskafka size --input-partitions 64 --output-partitions 100 --tasks 8"
)(size)
app.command(epilog="Example: eoskafka top 127.0.0.1:9095 --interval 1")(top)
app.command(
    epilog="Example: eoskafka verify --input payments --output payments-clean --group payments-job "
    "--by key --bootstrap-servers b:9092"
)(verify)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; typer itself ends in SystemExit."""
    try:
        app(list(arguments), prog_name="eoskafka")
    except EosKafkaError as error:
        messages.print("error:", style="red", end=" ")
        messages.print(str(error), markup=False)
        return Exit.REFUSED
    return Exit.DONE


def _print_version(wanted: bool) -> None:
    if wanted:
        data.print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Exactly-once Kafka for Spark Structured Streaming."""


@app.command("jar-path", epilog="Example: spark-submit --jars $(eoskafka jar-path) job.py")
def print_jar_path(
    thin: Annotated[
        bool,
        typer.Option(
            "--thin",
            help="Print the path of the thin jar, which keeps the package names of Apache Kafka's "
            "client. Log-in plug-ins need these names. This works in a checkout only.",
        ),
    ] = False,
) -> None:
    """Print the path of the connector's jar."""
    if thin and _jar.checkout() is not None:
        messages.print("building the thin jar if it is missing or stale ...")
    print(jar_path(thin))
