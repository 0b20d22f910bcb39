"""`eoskafka doctor`: what is wrong here, or with a cluster, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from eoskafka import doctor as examination
from eoskafka.cli.brokers import Client, ConfigFile, client_settings, names, reaching
from eoskafka.cli.output import Exit, Format, OutputFormat, data, print_json, print_table
from eoskafka.doctor import Level
from eoskafka.errors import UnreachableError

_STYLES = {
    Level.FINE: "green",
    Level.NOTE: "yellow",
    Level.PROBLEM: "red",
    Level.UNKNOWN: "cyan",
}


def doctor(
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            help="The addresses of the brokers, as host:port with commas between them. Without "
            "them, the command examines only this machine."
        ),
    ] = "",
    input_topics: Annotated[
        str,
        typer.Option("--input", help="The topics that the query reads, with commas between them."),
    ] = "",
    output_topics: Annotated[
        str,
        typer.Option(
            "--output", help="The topics that the query writes to, with commas between them."
        ),
    ] = "",
    group: Annotated[str, typer.Option(help="The query's kafka.group.id.")] = "",
    decision_topic: Annotated[
        str, typer.Option(help="The query's decisionTopic.")
    ] = "__eoskafka_decisions",
    remote: Annotated[
        str,
        typer.Option(
            help="The address of a server of Spark Connect, such as sc://host:15002: the command "
            "asks it whether it has the connector."
        ),
    ] = "",
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Examine this machine and a cluster, and say what to do about each problem.

    On this machine, the command examines Python, Java, Spark and the connector's jar; of a client
    of Spark Connect (pyspark-client) only what the client uses. On the cluster, it examines the
    brokers, their limits and the user's rights. It changes nothing.
    The exit code is 1 if there is a problem, and 3 if the brokers do not answer.
    """
    found = examination.machine()
    if remote:
        found.append(examination.server(remote))
    unreachable: UnreachableError | None = None
    if bootstrap_servers:
        try:
            found += examination.cluster(
                bootstrap_servers,
                inputs=names(input_topics),
                outputs=names(output_topics),
                group=group,
                decision_topic=decision_topic,
                client=client_settings(client, config),
            )
        except UnreachableError as error:
            unreachable = error
    if output is Format.JSON:
        print_json({"findings": [asdict(each) for each in found]})
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for each in found:
            table.add_row(Text(each.level.value, _STYLES[each.level]), each.about, each.found)
        print_table(table)
        for each in found:
            if each.advice:
                data.print(f"{each.about}: {each.advice}", markup=False)
    with reaching():
        # After what this machine has told.
        if unreachable is not None:
            raise unreachable
    if any(each.level is Level.PROBLEM for each in found):
        raise typer.Exit(Exit.REFUSED)
