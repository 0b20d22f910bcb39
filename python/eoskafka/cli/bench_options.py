"""The options that several commands of `eoskafka bench` have, and the brokers that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eoskafka.bench.brokers import Brokers

OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output", help="A file to which the command also writes the result.", dir_okay=False
    ),
]

Servers = Annotated[
    str | None,
    typer.Option(
        help="The addresses of the brokers, as host:port with commas between them. They must "
        "accept clients without a log-in.",
        show_default="a broker that the command starts",
    ),
]

BrokerCount = Annotated[
    int,
    typer.Option(
        "--brokers",
        help="How many brokers the command starts: 1, or 3 with everything replicated three times.",
    ),
]

RoundTrip = Annotated[
    float,
    typer.Option(
        help="The network round trip to the brokers, in milliseconds. A proxy adds it to every "
        "connection of what is measured. This needs a checkout and Maven.",
        min=0,
    ),
]

SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        help="A setting of the Spark session, as KEY=VALUE. The option can be given several times.",
    ),
]

PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot", help="A file for a plot of the result: .png, .svg or .pdf.", dir_okay=False
    ),
]

Rate = Annotated[
    int, typer.Option(help="How many records are written to the input topic per second.", min=1)
]

WarmUp = Annotated[
    int, typer.Option(help="How many seconds each run lasts before its timed part begins.", min=0)
]

RecordBytes = Annotated[int, typer.Option(help="The size of each record's value in bytes.", min=16)]

Partitions = Annotated[
    int, typer.Option(help="How many partitions the input and the output topic have.", min=1)
]


def conf_of(given: list[str] | None) -> dict[str, str]:
    """Settings of Spark by their names."""
    conf = {}
    for each in given or ():
        key, equals, value = each.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{each!r} is not KEY=VALUE", param_hint="--spark-conf")
        conf[key] = value
    return conf


def brokers_of(servers: str | None, count: int, round_trip_ms: float) -> Brokers:
    """Where to measure."""
    from eoskafka.bench.brokers import Brokers
    from eoskafka.bench.peers import missing

    if count not in (1, 3):
        raise typer.BadParameter("must be 1 or 3", param_hint="--brokers")
    if servers is not None and (count != 1 or round_trip_ms):
        raise typer.BadParameter(
            "cannot be combined with --bootstrap-servers: it is for brokers that the command "
            "starts",
            param_hint="--round-trip-ms" if round_trip_ms else "--brokers",
        )
    if round_trip_ms and (reason := missing()):
        raise typer.BadParameter(
            f"the proxy is built like the peers, and {reason}", param_hint="--round-trip-ms"
        )
    return Brokers(servers, count, round_trip_ms)
