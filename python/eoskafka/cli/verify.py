"""`eoskafka verify`: whether a query's output has each record of its input once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import NoReturn

import typer
from kafka import TopicPartition

from eoskafka import _json
from eoskafka.audit import UndecidedError, Verdict
from eoskafka.audit.request import By, Progress, Request
from eoskafka.brokers.connection import Connection
from eoskafka.cli.brokers import Client, ConfigFile, Servers, client_settings, names
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json
from eoskafka.cli.verify_checkpoint import Known, read_checkpoint
from eoskafka.cli.verify_options import (
    CheckpointLocation,
    CountAlike,
    DeadLetters,
    DeadLettersQuery,
    Expected,
    Folder,
    Group,
    IdentifiedBy,
    IdField,
    InputFrom,
    InputTopics,
    MemoryMiB,
    Order,
    OutputFrom,
    OutputTopics,
    WaitSeconds,
)
from eoskafka.cli.verify_report import Bar, lines_of
from eoskafka.errors import (
    AuthorizationError,
    CheckpointError,
    ConfigurationError,
    UnreachableError,
)

_MIB = 1 << 20
_BY = ("key", "value", "digest")
_IDS = (
    "if one of them were lost and another one duplicated, this would not show. Identify records by "
    "something that only one has (--by digest, --id-field)"
)
_DIGESTS = (
    "some have the same key and value as input records that may or may not be in the output "
    "(after the group's offsets, or before --input-from), and one of these could stand in for a "
    "lost one. Identify records by something that only one has (--id-field), repeat the command "
    "when the query has read everything"
)
_HAS_GROWN = "the query found new topics or partitions while the command read; try again"


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
        known = read_checkpoint(checkpoint, cluster) if checkpoint else Known((), "", {})
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
        return bool(checkpoint) and read_checkpoint(checkpoint, cluster) != known

    verdict = _verdict(lambda bar: prove(cluster, request, bar), has_grown, output)
    if not count_alike:
        _require_distinct(verdict, request.by is By.DIGEST and not id_field, output)
    if output is Format.JSON:
        whole = {"holds": verdict.holds, "is_exactly_once": verdict.is_exactly_once}
        print_json({**whole, **asdict(verdict)})
    else:
        data.print("\n".join(lines_of(verdict, order and expected is None)), markup=False)
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
    except (UnreachableError, AuthorizationError, OSError) as error:
        _undecided(str(error), output)


def _verdict(
    prove: Callable[[Progress], Verdict], has_grown: Callable[[], bool], output: Format
) -> Verdict:
    """The verdict on a query that has found no new topics or partitions meanwhile."""
    try:
        with Bar() as bar:
            verdict = prove(bar)
        if has_grown():
            _undecided(_HAS_GROWN, output)
    except ConfigurationError as error:
        if has_grown():
            _undecided(_HAS_GROWN, output)
        _usage(error)
    except (UndecidedError, UnreachableError, AuthorizationError) as error:
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


def _require_sense(request: Request) -> None:
    if not request.outputs:
        raise typer.BadParameter("it names no topic", param_hint="--output")
    if bool(request.inputs) == (request.expected is not None):
        raise typer.BadParameter("give one of --input and --expected", param_hint="--input")
    if request.expected is not None and (
        request.group or request.input_starts or request.dead_letters
    ):
        raise typer.BadParameter(
            "--group, --input-from and --dead-letters are used only with --input",
            param_hint="--expected",
        )
    if request.dead_letters_query and not request.dead_letters:
        raise typer.BadParameter(
            "it is used only with --dead-letters", param_hint="--dead-letters-query"
        )
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
            for topic, partitions in (_json.parse(text) if text else {}).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError, OverflowError) as error:
        raise typer.BadParameter(
            f'\'{text}\' is not JSON such as {{"topic":{{"0":7}}}}', param_hint=option
        ) from error
