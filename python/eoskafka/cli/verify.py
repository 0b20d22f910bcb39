"""`eoskafka verify`: whether a query's output has each record of its input once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from kafka import TopicPartition
from rich import progress as bars

from eoskafka.audit import UndecidedError, Verdict
from eoskafka.audit.request import By, Progress, Request
from eoskafka.checkpoints import Checkpoint
from eoskafka.cli.brokers import Client, ConfigFile, Servers, client_settings, names
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json
from eoskafka.errors import CheckpointError, ConfigurationError, UnreachableError
from eoskafka.groups import Connection, topic_ids

_MIB = 1 << 20
_BY = ("key", "value", "digest")
_IDS = (
    "if one of them were lost and another one duplicated, this would not show. Identify records by "
    "something that only one has (--by digest, --id-field)"
)
_DIGESTS = (
    "the same key and value are in input that may or may not be out (after the group's offsets, or "
    "before --input-from), and one of these could stand in for a lost one. Identify records by "
    "something that only one has (--id-field), repeat the command when the query has read "
    "everything"
)
_HAS_GROWN = "the query found new topics or partitions while the command read; try again"

OutputTopics = Annotated[
    str,
    typer.Option("--output", help="The topics that the query writes to, with commas between them."),
]
InputTopics = Annotated[
    str, typer.Option("--input", help="The topics that the query reads, with commas between them.")
]
DeadLetters = Annotated[
    str,
    typer.Option(
        help="Topics with the dead letters of the query (`eoskafka.with_dead_letters`), with "
        "commas between them. Each input record must be in the output or there, once. Dead letters "
        "of other topics' records are left out."
    ),
]
DeadLettersQuery = Annotated[
    str,
    typer.Option(
        help="If several queries write to these topics: the name that this query gives to "
        "`eoskafka.with_dead_letters` as query. Dead letters with another name are left out. By "
        "default, there is no verdict if they have several names."
    ),
]
Group = Annotated[
    str,
    typer.Option(
        help="The query's kafka.group.id (`eoskafka offsets show` lists the groups). With it, "
        "only input records before the group's offsets must be in the output. Without it, all "
        "input records must be."
    ),
]
IdentifiedBy = Annotated[
    str,
    typer.Option(
        help="What identifies a record in the input and the output: key (if no two records have "
        "the same key), value, or digest (key and value together). Give this option or --id-field."
    ),
]
IdField = Annotated[
    str,
    typer.Option(
        help="Instead of --by: the name of a field, such as order.id, in values that are JSON."
    ),
]
CountAlike = Annotated[
    bool,
    typer.Option(
        "--count-alike",
        help="If several records have the same id, compare only how many of them the input and "
        "the output have. By default, the command gives no verdict if there are such records.",
    ),
]
Expected = Annotated[
    Path | None,
    typer.Option(
        help="Instead of --input: the path of a Parquet or Delta table with the expected output, "
        "in columns key, value or both."
    ),
]
InputFrom = Annotated[
    str,
    typer.Option(
        help='The offsets at which the query began, as JSON such as {"topic":{"0":7}}. Here -2 '
        "stands for the first offset that the log has now. With the default, there is no "
        "verdict if the log no longer begins at 0.",
        show_default="offset 0",
    ),
]
OutputFrom = Annotated[
    str,
    typer.Option(
        help="The offsets at which the query's output begins, in the form of --input-from.",
        show_default="offset 0",
    ),
]
CheckpointLocation = Annotated[
    str,
    typer.Option(
        help="The query's checkpointLocation. The command takes --input, --group and "
        "--input-from from it if you do not give them. This works for a query with one source "
        "only."
    ),
]
Order = Annotated[
    bool,
    typer.Option(
        help="Whether to check the order within each key. Use --no-order for a query that "
        "shuffles, or that gives one partition to several tasks, because it does not keep the "
        "order."
    ),
]
WaitSeconds = Annotated[
    float,
    typer.Option(
        help="How many seconds the command waits until open transactions have ended.", min=0
    ),
]
MemoryMiB = Annotated[
    int, typer.Option(help="How many MiB of memory the comparison may use.", min=16)
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help="A folder for temporary files, which need about 55 bytes for each record.",
        show_default="the system's folder for temporary files",
    ),
]


def verify(
    bootstrap_servers: Servers,
    output_topics: OutputTopics,
    input_topics: InputTopics = "",
    group: Group = "",
    by: IdentifiedBy = "",
    id_field: IdField = "",
    count_alike: CountAlike = False,
    expected: Expected = None,
    dead_letters: DeadLetters = "",
    dead_letters_query: DeadLettersQuery = "",
    input_from: InputFrom = "",
    output_from: OutputFrom = "",
    checkpoint: CheckpointLocation = "",
    order: Order = True,
    wait: WaitSeconds = 10.0,
    memory: MemoryMiB = 512,
    folder: Folder = None,
    client: Client = None,
    config: ConfigFile = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check that a query's output has each record of its input exactly once.

    The command reads input and output with isolation.level=read_committed, as every consumer of the
    output must. It reports records that are lost, duplicated, unexpected or out of order within
    their key. With --input, the query must write exactly one record for each that it reads; for any
    other query, give a table of the expected output (--expected). You can run the command while the
    query is running, and it changes nothing. The exit code is 1 if it found a fault, and 3 if there
    is no verdict.
    """
    prove = _engine()
    _require_id(by, id_field)
    if checkpoint and expected is not None:
        raise typer.BadParameter("it is for --input, not --expected", param_hint="--checkpoint")
    with _before_reading(output):
        cluster = Connection(bootstrap_servers, client_settings(client, config))
        known = _of_checkpoint(checkpoint, cluster) if checkpoint else _Known((), "", {})
    inputs = names(input_topics)
    request = Request(
        outputs=names(output_topics),
        by=By(by or "digest"),
        inputs=inputs or known.topics,
        group=group or known.group,
        id_field=id_field,
        expected=expected,
        dead_letters=names(dead_letters),
        dead_letters_query=dead_letters_query,
        input_starts={**known.starts_of(inputs), **_offsets(input_from, "--input-from")},
        output_starts=_offsets(output_from, "--output-from"),
        ordered=order,
        wait_s=wait,
        memory=memory * _MIB,
        folder=folder,
    )
    _require_sense(request)

    def has_grown() -> bool:
        return bool(checkpoint) and _of_checkpoint(checkpoint, cluster) != known

    verdict = _verdict(lambda bar: prove(cluster, request, bar), has_grown, output)
    if not count_alike:
        _require_distinct(verdict, request.by is By.DIGEST and not id_field, output)
    if output is Format.JSON:
        whole = {"holds": verdict.holds, "is_exactly_once": verdict.is_exactly_once}
        print_json({**whole, **asdict(verdict)})
    else:
        data.print("\n".join(_lines(verdict, order and expected is None)), markup=False)
    if not verdict.holds:
        raise typer.Exit(Exit.REFUSED)


def _engine() -> Callable[[Connection, Request, Progress], Verdict]:
    try:
        from eoskafka.audit.verify import verify as prove
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and verify needs it: pip install 'eoskafka[verify]'"
        ) from error
    return prove


def _require_id(by: str, id_field: str) -> None:
    if bool(by) == bool(id_field) or (by and by not in _BY):
        raise typer.BadParameter(
            f"say what identifies a record: one of {', '.join(_BY)}, or --id-field",
            param_hint="--by",
        )


@contextmanager
def _before_reading(output: Format) -> Iterator[None]:
    try:
        yield
    except (ConfigurationError, CheckpointError) as error:
        _usage(error)
    except (UnreachableError, OSError) as error:
        _undecided(str(error), output)


def _verdict(
    prove: Callable[[Progress], Verdict], has_grown: Callable[[], bool], output: Format
) -> Verdict:
    """The verdict on a query that has found no new topics or partitions meanwhile."""
    try:
        with _Bar() as bar:
            verdict = prove(bar)
        if has_grown():
            _undecided(_HAS_GROWN, output)
    except ConfigurationError as error:
        if has_grown():
            _undecided(_HAS_GROWN, output)
        _usage(error)
    except (UndecidedError, UnreachableError) as error:
        _undecided(str(error), output)
    return verdict


def _require_distinct(verdict: Verdict, by_digest: bool, output: Format) -> None:
    if verdict.holds and verdict.alike:
        _undecided(
            f"the number of records is right, but {verdict.alike:,} of {verdict.inputs:,} input "
            f"records share their id with others: {_DIGESTS if by_digest else _IDS}, or give "
            "--count-alike if their number is enough",
            output,
        )


@dataclass(frozen=True)
class _Known:
    """What a checkpoint says."""

    topics: Sequence[str]
    group: str
    starts: Mapping[TopicPartition, int]

    def starts_of(self, chosen: Collection[str]) -> dict[TopicPartition, int]:
        """Those of some topics; of all where none is chosen."""
        return {p: n for p, n in self.starts.items() if not chosen or p.topic in chosen}


def _of_checkpoint(location: str, cluster: Connection) -> _Known:
    found = Checkpoint(location)
    identity, batch, starts = found.identity(), found.last_batch(), found.starts()
    if identity is None or batch is None:
        raise ConfigurationError(
            f"{location} is no checkpoint of a query that eoskafka's source has begun"
        )
    if batch.sources > 1:
        raise ConfigurationError(
            f"{location} is of a query with several sources: what it should have written is a "
            "matter for --expected"
        )
    if identity.shared or starts is None:
        raise ConfigurationError(
            f"{location} does not say where its group began"
            + (", which several drivers share" if identity.shared else "")
            + ": give --input, --group and --input-from"
        )
    topics = sorted({p.topic for p in batch.end})
    if gone := sorted({p.topic for p in starts} - set(topics)):
        raise ConfigurationError(
            f"the query of {location} has read {', '.join(gone)}, which is gone: give --input, "
            "--group, --input-from and --output-from"
        )
    with cluster.looking_at("the topics"), cluster.admin() as admin:
        partitions = topic_ids(admin, topics)
    # A partition that was found later is read from its first record.
    return _Known(topics, identity.group, {p: starts.get(p, 0) for p in partitions})


def _require_sense(request: Request) -> None:
    if not request.outputs:
        raise typer.BadParameter("there is no topic", param_hint="--output")
    if bool(request.inputs) == (request.expected is not None):
        raise typer.BadParameter("give one of --input and --expected", param_hint="--input")
    if request.expected is not None and (
        request.group or request.input_starts or request.dead_letters
    ):
        raise typer.BadParameter(
            "--group, --input-from and --dead-letters are for --input", param_hint="--expected"
        )
    if request.dead_letters_query and not request.dead_letters:
        raise typer.BadParameter("it is for --dead-letters", param_hint="--dead-letters-query")
    if both := set(request.inputs) & set(request.outputs):
        raise typer.BadParameter(f"{min(both)} is both input and output", param_hint="--output")
    if both := {*request.inputs, *request.outputs} & set(request.dead_letters):
        raise typer.BadParameter(
            f"{min(both)} is input or output as well", param_hint="--dead-letters"
        )


def _usage(error: Exception) -> NoReturn:
    messages.print(f"usage: {error}", markup=False)
    raise typer.Exit(Exit.USAGE) from error


def _undecided(why: str, output: Format) -> NoReturn:
    messages.print(f"undecided: {why}", markup=False)
    if output is Format.JSON:
        print_json({"holds": None, "undecided": why})
    raise typer.Exit(Exit.UNREACHABLE)


def _offsets(text: str, option: str) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in (json.loads(text) if text else {}).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError, OverflowError) as error:
        raise typer.BadParameter(
            f'\'{text}\' is not JSON such as {{"topic":{{"0":7}}}}', param_hint=option
        ) from error


def _lines(verdict: Verdict, order: bool) -> list[str]:
    lines = [str(example) for example in verdict.examples]
    if verdict.optional:
        lines.append(
            f"{verdict.optional:,} further input records may or may not be in the output: they are "
            "after the group's offsets, or before --input-from"
        )
    if order:
        lines.append(
            f"the order within keys was checked for {verdict.ordered:,} records: those with an id "
            "of their own and the same key in input and output"
        )
    number_of = {fault.value: number for fault, number in verdict.faults.items()}
    none_fits = (number_of["lost"], number_of["unexpected"]) == (verdict.inputs, verdict.outputs)
    if none_fits and verdict.inputs and verdict.outputs:
        lines.append(
            "input and output have no record in common: if the query changes what identifies a "
            "record, use --by key, --id-field or --expected"
        )
    faults = ", ".join(f"{number:,} {fault}" for fault, number in number_of.items())
    inputs = f"{verdict.inputs:,} in"
    if verdict.optional:
        inputs = f"{verdict.inputs + verdict.optional:,} in, of which {verdict.inputs:,} had to be"
        inputs += " out"
    letters = f"{verdict.dead_letters:,} dead letters, " if verdict.dead_letters else ""
    counts = f"{inputs}, {verdict.outputs:,} out, {letters}{faults}"
    if verdict.holds:
        return [*lines, f"exactly once: {counts}"]
    if verdict.is_exactly_once:
        return [*lines, f"each record once, but NOT in order within its key: {counts}"]
    return [*lines, f"NOT exactly once: {counts}"]


class _Bar:
    """Shows on standard error how far it is; nothing into a pipe."""

    def __init__(self) -> None:
        self._progress = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            console=messages,
            transient=True,
            # Not messages.is_terminal, which FORCE_COLOR makes true.
            disable=not sys.stderr.isatty(),
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
