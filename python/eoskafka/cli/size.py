"""`eoskafka size`: what will a query cost the brokers?"""

from __future__ import annotations

import enum
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.table import Table

from eoskafka.cli.output import Format, OutputFormat, data, print_json
from eoskafka.sizing import Load, Workload, load_of


class Scope(str, enum.Enum):
    """The transaction scope."""

    TASK = "task"
    EPOCH = "epoch"


def size(
    input_partitions: Annotated[
        int, typer.Option(help="The number of partitions that a batch reads from.", min=1)
    ],
    output_partitions: Annotated[
        int, typer.Option(help="The number of partitions that each task writes to.", min=1)
    ],
    tasks: Annotated[
        int,
        typer.Option(
            help="The number of tasks that write in a batch: in task scope, the slots; in epoch "
            "scope, the writers (spark.sql.shuffle.partitions).",
            min=1,
        ),
    ],
    batch_seconds: Annotated[
        float,
        typer.Option(
            help="The time between the beginnings of two batches, in seconds. In real-time mode, "
            "give the commit interval."
        ),
    ] = 1.0,
    scope: Annotated[
        Scope, typer.Option(help="The scope of the query's transactions: task or epoch.")
    ] = Scope.TASK,
    queries: Annotated[int, typer.Option(help="The number of queries of this kind.", min=1)] = 1,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Estimate the load that exactly-once puts on the brokers, in addition to the records.

    The estimate is computed from measurements of one broker with transaction.version=2. The command
    contacts no broker.
    """
    kind: Literal["task", "epoch"] = "epoch" if scope is Scope.EPOCH else "task"
    workload = Workload(kind, tasks, input_partitions, output_partitions, batch_seconds, queries)
    found = load_of(workload)
    if output is Format.JSON:
        print_json({"workload": asdict(workload), "load": asdict(found)})
    else:
        data.print(_table(found))


def _table(found: Load) -> Table:
    table = Table("what", "how much", "of what")
    for row in (
        ("transactions", _rate(found.transactions_per_s), "begin and end"),
        ("requests", _rate(found.requests_per_s), "besides those that fetch records"),
        ("markers", _rate(found.markers_per_s), "control records in the output's partitions"),
        (
            "transaction log",
            _byte_rate(found.transaction_log_bytes_per_s),
            "__transaction_state, by each replica",
        ),
        (
            "offsets",
            _byte_rate(found.offsets_bytes_per_s),
            "__consumer_offsets, by each replica",
        ),
        ("decisions", _byte_rate(found.decision_bytes_per_s), "decision topic, by each replica"),
        ("these topics", f"{found.bytes_per_day / 1e9:,.2f} GB/day", "before compaction"),
        (
            "transactional ids",
            f"{found.transactional_ids:,}",
            "of one run; known for seven days by default",
        ),
        (
            "producer states",
            f"{found.producer_states:,}",
            "in all output partitions; known for a day by default",
        ),
    ):
        table.add_row(*row)
    return table


def _rate(per_s: float) -> str:
    return f"{per_s:,.1f}/s"


def _byte_rate(per_s: float) -> str:
    return f"{per_s / 1_000:,.2f} kB/s"
