"""`eoskafka verify`: whether a query's output has each record of its input once."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from kafka import TopicPartition
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eoskafka.audit import UndecidedError
from eoskafka.cli.brokers import Client, Servers, client_settings, names, reaching
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json
from eoskafka.errors import ConfigurationError
from eoskafka.groups import Connection

if TYPE_CHECKING:
    from eoskafka.audit.verify import Verdict

_MIB = 1 << 20


def verify(
    bootstrap_servers: Servers,
    output_topics: Annotated[
        str, typer.Option("--output", help="Topics that the query writes to, commas between them.")
    ],
    input_topics: Annotated[
        str, typer.Option("--input", help="Topics that it reads, with commas between them.")
    ] = "",
    group: Annotated[
        str,
        typer.Option(
            help="The query's kafka.group.id: what its offsets have not reached need not have come "
            "out. Without it everything must."
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option(
            help="What a record is told apart by, the same in input and output: key, value, or "
            "digest (both)."
        ),
    ] = "key",
    id_field: Annotated[
        str, typer.Option(help="Instead of --by: a field of the JSON in each value, order.id.")
    ] = "",
    expected: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --input: what should have come out, Parquet with the columns key, "
            "value or both."
        ),
    ] = None,
    input_from: Annotated[
        str,
        typer.Option(help='Where the query began, {"topic":{"0":7}}; else the log\'s beginning.'),
    ] = "",
    output_from: Annotated[
        str, typer.Option(help="Where its output begins, in the same form.")
    ] = "",
    order: Annotated[bool, typer.Option(help="Look at the order within each key too.")] = True,
    wait: Annotated[
        float, typer.Option(help="Seconds that open transactions may take to end.", min=0)
    ] = 10.0,
    memory: Annotated[int, typer.Option(help="MiB that comparing may take.", min=16)] = 512,
    client: Client = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Read input and output as a read_committed consumer, and tell what is lost, there twice,
    unexpected or out of order within its key.

    For queries that make one record of each: any other's output is compared with a table
    (--expected). The query may run meanwhile. Nothing is changed. Ends with 1 if something is
    wrong, with 3 if that cannot be decided.
    """
    try:
        from eoskafka.audit.verify import By, Request
        from eoskafka.audit.verify import verify as prove
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and verify needs it: pip install 'eoskafka[verify]'"
        ) from error
    if bool(input_topics) == (expected is not None):
        raise typer.BadParameter("give one of --input and --expected", param_hint="--input")
    if by not in set(By):
        raise typer.BadParameter(f"'{by}' is not key, value or digest", param_hint="--by")
    request = Request(
        outputs=names(output_topics),
        inputs=names(input_topics),
        group=group,
        by=By(by),
        id_field=id_field,
        expected=expected,
        input_starts=_offsets(input_from, "--input-from"),
        output_starts=_offsets(output_from, "--output-from"),
        ordered=order,
        wait_s=wait,
        memory=memory * _MIB,
    )
    cluster = Connection(bootstrap_servers, client_settings(client))
    try:
        with reaching(), _Bar() as bar:
            verdict = prove(cluster, request, bar)
    except UndecidedError as error:
        messages.print(f"undecided: {error}", markup=False)
        raise typer.Exit(Exit.UNREACHABLE) from error
    if output is Format.JSON:
        print_json({"holds": verdict.holds, **asdict(verdict)})
    else:
        data.print("\n".join(_lines(verdict)), markup=False)
    if not verdict.holds:
        raise typer.Exit(Exit.REFUSED)


def _offsets(text: str, option: str) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in (json.loads(text) if text else {}).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise typer.BadParameter(
            f'\'{text}\' is not JSON such as {{"topic":{{"0":7}}}}', param_hint=option
        ) from error


def _lines(verdict: Verdict) -> list[str]:
    faults = ", ".join(f"{number:,} {fault.value}" for fault, number in verdict.faults.items())
    later = f", {verdict.later:,} after the group's offsets" if verdict.later else ""
    counts = f"{verdict.inputs:,} in{later}, {verdict.outputs:,} out, {faults}"
    order = f"the order within keys was looked at for {verdict.ordered:,} records"
    return [
        *map(str, verdict.examples),
        *([order] if verdict.ordered else []),
        f"{'exactly once' if verdict.holds else 'NOT exactly once'}: {counts}",
    ]


class _Bar:
    """Shows on standard error how far it is; nothing into a pipe."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=messages,
            transient=True,
            disable=not messages.is_terminal,
        )
        self._task = self._progress.add_task("connecting", total=None)

    def begins(self, what: str, records: int) -> None:
        self._progress.update(self._task, description=what, total=records, completed=0)

    def read(self, records: int) -> None:
        self._progress.advance(self._task, records)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
