"""The options of `eoskafka verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
