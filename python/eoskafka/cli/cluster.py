"""`eoskafka cluster`: a local Kafka cluster that stays until it is stopped."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json
from eoskafka.cluster import LocalCluster, jars
from eoskafka.errors import ClusterNotFoundError

app = typer.Typer(
    help="A local Kafka cluster (KRaft) on 127.0.0.1.",
    epilog="Example: eoskafka cluster start --brokers 3",
    no_args_is_help=True,
)


class Size(str, enum.Enum):
    """Values of `--brokers`."""

    ONE = "1"
    THREE = "3"


DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The folder of the cluster's data and logs.",
        show_default="the folder eoskafka/cluster in the user's cache folder",
    ),
]


@app.command(epilog="Example: eoskafka cluster start --brokers 3 --format json")
def start(
    brokers: Annotated[Size, typer.Option(help="How many brokers the cluster has.")] = Size.ONE,
    data_dir: DataDir = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Start a local test cluster on this machine, and print its address.

    A cluster that was stopped is started again with its data.
    """
    cluster = LocalCluster(brokers=int(brokers.value), data_dir=data_dir)
    if not jars.are_here():
        messages.print(f"downloading Kafka {jars.KAFKA_VERSION} (44 MB, once) ...")
        jars.kafka_jars()
    messages.print(f"starting {brokers.value} broker(s) in {cluster.data_dir} ...", markup=False)
    cluster.start()
    _show(cluster, output)


@app.command(epilog="Example: eoskafka cluster status --format json")
def status(data_dir: DataDir = None, output: OutputFormat = Format.TEXT) -> None:
    """Show the local test cluster.

    The exit code is 3 if there is no cluster, or if not every broker is running.
    """
    try:
        cluster = LocalCluster.attach(data_dir)
    except ClusterNotFoundError as error:
        messages.print(str(error), markup=False)
        raise typer.Exit(Exit.UNREACHABLE) from error
    _show(cluster, output)
    if not cluster.is_running:
        raise typer.Exit(Exit.UNREACHABLE)


@app.command(epilog="Example: eoskafka cluster stop")
def stop(data_dir: DataDir = None) -> None:
    """Stop the local test cluster, and keep its data."""
    cluster = LocalCluster.attach(data_dir)
    cluster.stop()
    messages.print(f"stopped; the data stays in {cluster.data_dir}", markup=False)


@app.command(epilog="Example: eoskafka cluster purge")
def purge(data_dir: DataDir = None) -> None:
    """Stop the local test cluster, and delete its data and logs.

    Other brokers are not touched.
    """
    cluster = LocalCluster.attach(data_dir)
    cluster.purge()
    messages.print(f"deleted {cluster.data_dir}", markup=False)


def _show(cluster: LocalCluster, output: Format) -> None:
    if output is Format.JSON:
        print_json(
            {
                "cluster_id": cluster.cluster_id,
                "bootstrap_servers": cluster.bootstrap_servers,
                "running": cluster.is_running,
                "data_dir": str(cluster.data_dir),
                "brokers": [
                    {
                        "node_id": b.node_id,
                        "port": b.port,
                        "pid": b.pid,
                        "log_file": str(b.log_file),
                    }
                    for b in cluster.brokers
                ],
            }
        )
        return
    data.print(f"bootstrap.servers  {cluster.bootstrap_servers}")
    data.print(f"cluster id         {cluster.cluster_id}", markup=False)
    for broker in cluster.brokers:
        state = f"pid {broker.pid}" if broker.pid else "down"
        data.print(
            f"broker {broker.node_id}           {state}, log {broker.log_file}", markup=False
        )
