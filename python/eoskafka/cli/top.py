"""`eoskafka top`: what do the queries of several drivers do right now?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table

from eoskafka._text import printable
from eoskafka.cli.output import (
    Exit,
    Format,
    OutputFormat,
    data,
    messages,
    print_json,
    print_table,
)
from eoskafka.errors import ConfigurationError, EosKafkaError
from eoskafka.reports import endpoint
from eoskafka.reports.model import Query
from eoskafka.reports.table import table

_DEFAULT = f"{endpoint.HOST}:{endpoint.PORT}"


@dataclass(frozen=True)
class Driver:
    """What one exporter has served.

    Attributes:
        endpoint: as it was given.
        queries: by name; none if it has not served them.
        error: why it has not, or an empty text.
    """

    endpoint: str
    queries: list[Query]
    error: str = ""


def top(
    endpoints: Annotated[
        list[str] | None,
        typer.Argument(
            help="The exporters of the drivers (eoskafka.metrics.export), each as host:port or as "
            f"the URL of its page.  [default: {_DEFAULT}]",
            metavar="[ENDPOINT]...",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="The time between two updates, in seconds.", min=0.1)
    ] = 2.0,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Print the table once and exit. This also happens if the output is not a "
            "terminal, and with --format json.",
        ),
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the queries of one or more drivers until Ctrl+C, one line for each query.

    The command reads the page that each driver's exporter serves to Prometheus, and contacts no
    broker. It needs the wheel's extra metrics. A driver that does not answer, or whose page is not
    that of an exporter, is named below the table and asked again. With --once, the exit code is
    then 3.
    """
    wanted = list(dict.fromkeys(endpoints or [_DEFAULT]))
    for name in wanted:
        try:
            endpoint.page(name)
        except ConfigurationError as error:
            raise typer.BadParameter(str(error), param_hint="ENDPOINT") from error
    with ThreadPoolExecutor(len(wanted)) as pool:

        def look() -> list[Driver]:
            return list(pool.map(_ask, wanted))

        if once or output is Format.JSON or not data.is_terminal:
            _show_once(look(), output)
        else:
            _follow(look, interval)


def _ask(name: str) -> Driver:
    try:
        return Driver(name, endpoint.read(name))
    except EosKafkaError as error:
        return Driver(name, [], str(error))


def _show_once(drivers: Sequence[Driver], output: Format) -> None:
    if output is Format.JSON:
        print_json({"drivers": [_as_json(driver) for driver in drivers]})
    else:
        print_table(_table(drivers))
        for driver in drivers:
            if driver.error:
                messages.print(printable(driver.error))
    if any(driver.error for driver in drivers):
        raise typer.Exit(Exit.UNREACHABLE)


def _as_json(driver: Driver) -> dict[str, object]:
    queries = []
    for query in driver.queries:
        found = {**vars(query), "waits_s": sum(query.waits_s.values())}
        # Prometheus gets numbers only.
        del found["scope"]
        queries.append(found)
    return {"endpoint": driver.endpoint, "error": driver.error, "queries": queries}


def _follow(look: Callable[[], list[Driver]], interval_s: float) -> None:
    try:
        with Live(_screen(look()), console=data, auto_refresh=False) as screen:
            while True:
                time.sleep(interval_s)
                screen.update(_screen(look()), refresh=True)
    except KeyboardInterrupt:
        return


def _screen(drivers: Sequence[Driver]) -> Group:
    return Group(_table(drivers), *(printable(each.error) for each in drivers if each.error))


def _table(drivers: Sequence[Driver]) -> Table:
    shown = [(driver.endpoint, query) for driver in drivers for query in driver.queries]
    names = [name for name, _ in shown] if len(drivers) > 1 else []
    return table([query for _, query in shown], names, now_s=time.time())
