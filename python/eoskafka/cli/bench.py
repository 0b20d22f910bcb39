"""`eoskafka bench ...`: the connector against its peers."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from eoskafka.cli.bench_options import (
    BrokerCount,
    OutputFile,
    Partitions,
    PlotFile,
    Rate,
    RecordBytes,
    RoundTrip,
    Servers,
    SparkConf,
    WarmUp,
    brokers_of,
    conf_of,
)
from eoskafka.cli.bench_run import Messages, require_extras, run
from eoskafka.cli.brokers import names
from eoskafka.cli.output import Format, OutputFormat, messages

if TYPE_CHECKING:
    from eoskafka.bench.peers import Peer

app = typer.Typer(
    help="Benchmark the connector against Spark's built-in connector and others.",
    epilog="Example: eoskafka bench throughput --rounds 3",
    no_args_is_help=True,
)


@app.callback()
def group() -> None:
    """Benchmark the connector against Spark's built-in connector and others."""


class Plan(str, enum.Enum):
    """Values of `--plan`."""

    IDENTITY = "identity"
    PANDAS = "pandas"


@app.command(epilog="Example: eoskafka bench throughput --records 1000000 --output result.json")
def throughput(
    records: Annotated[
        int, typer.Option(help="How many records the input topic has.", min=1)
    ] = 4_000_000,
    record_bytes: Annotated[
        int, typer.Option(help="The size of each record's value in bytes.", min=8)
    ] = 100,
    partitions: Partitions = 8,
    rounds: Annotated[
        int, typer.Option(help="How many timed runs each participant has.", min=1)
    ] = 5,
    warm_ups: Annotated[
        int,
        typer.Option(
            help="How many untimed runs each participant has first, so that Java has compiled its "
            "code.",
            min=1,
        ),
    ] = 3,
    keyed: Annotated[
        bool,
        typer.Option(
            "--keyed", help="Give each record a key of 8 bytes. By default, records have no key."
        ),
    ] = False,
    plan: Annotated[
        Plan,
        typer.Option(
            help="What the query does with the rows: identity writes them as they are, and pandas "
            "passes them through mapInPandas."
        ),
    ] = Plan.IDENTITY,
    peers: Annotated[
        str,
        typer.Option(
            help="What eoskafka is compared with, with commas between the names: built-in (Spark's "
            "connector), streams (Kafka Streams), flink (Apache Flink), loop (a Java program) and "
            "limits (programs that only read or only write)."
        ),
    ] = "built-in,streams,flink,loop,limits",
    slots: Annotated[
        int | None,
        typer.Option(
            help="The option slots of eoskafka's source.", show_default="the number of cores", min=1
        ),
    ] = None,
    bootstrap_servers: Servers = None,
    broker_count: BrokerCount = 1,
    round_trip_ms: RoundTrip = 0.0,
    output: OutputFormat = Format.TEXT,
    file: OutputFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure rows per second, CPU time and memory from topic to topic, and compare them with
    Spark's built-in connector, Kafka Streams, Flink and a Java program.

    The exit code is 1 if a run lost, duplicated or altered a record. No time is reported for such a
    run.
    """
    require_extras()
    from eoskafka.bench.report import Report, describe
    from eoskafka.bench.throughput import Settings, measure

    chosen, limits = _peers(peers, plan)
    brokers = brokers_of(bootstrap_servers, broker_count, round_trip_ms)
    settings = Settings(
        *(records, record_bytes, partitions, rounds, warm_ups),
        *(keyed, plan.value, chosen, limits, slots),
    )
    run(
        lambda: Report(measure(settings, Messages(describe), brokers)),
        output,
        file,
        plot,
    )


def _peers(wanted: str, plan: Plan) -> tuple[tuple[Peer, ...], bool]:
    """Who takes part, eoskafka last; and whether the limits are measured."""
    from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, FLINK, LOOP, PEERS, STREAMS, missing

    known = {
        "built-in": BUILT_IN.name,
        "streams": STREAMS.name,
        "flink": FLINK.name,
        "loop": LOOP.name,
        "limits": "",
    }
    given = names(wanted)
    chosen = _chosen(given, known)
    if plan is Plan.PANDAS:
        # Only Spark has it.
        chosen &= {BUILT_IN.name}
    peers = _available((*(peer for peer in PEERS if peer.name in chosen), EOSKAFKA))
    return peers, "limits" in given and plan is Plan.IDENTITY and missing() is None


def _chosen(given: Collection[str], known: dict[str, str]) -> set[str]:
    """Names of peers by what `--peers` calls them."""
    for name in given:
        if name not in known:
            raise typer.BadParameter(
                f"'{name}' is not one of {', '.join(known)}", param_hint="--peers"
            )
    return {known[name] for name in given}


def _available(peers: tuple[Peer, ...]) -> tuple[Peer, ...]:
    """Those of them that can be run from here; the others are named."""
    from eoskafka.bench.peers import missing

    ours = tuple(peer for peer in peers if peer.is_ours)
    others = [peer.label for peer in peers if peer not in ours]
    if others and (reason := missing()):
        messages.print(f"left out: {'; '.join(others)}: {reason}", markup=False)
        return ours
    return peers


@app.command(epilog="Example: eoskafka bench latency --rate 2000 --seconds 60")
def latency(
    rate: Rate = 2_000,
    seconds: Annotated[
        int, typer.Option(help="How many seconds the timed part of each run lasts.", min=1)
    ] = 30,
    warm_up: WarmUp = 15,
    record_bytes: RecordBytes = 100,
    partitions: Partitions = 8,
    rounds: Annotated[
        int, typer.Option(help="How many timed runs each participant has.", min=1)
    ] = 3,
    peers: Annotated[
        str,
        typer.Option(
            help="What eoskafka is compared with, with commas between the names: built-in (Spark's "
            "connector), streams (Kafka Streams) and flink (Apache Flink)."
        ),
    ] = "built-in,streams,flink",
    spark_conf: SparkConf = None,
    bootstrap_servers: Servers = None,
    broker_count: BrokerCount = 1,
    round_trip_ms: RoundTrip = 0.0,
    output: OutputFormat = Format.TEXT,
    file: OutputFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure the latency from input to output at a steady rate, and compare it with Spark's
    built-in connector, Kafka Streams and Flink.

    The exit code is 1 if a run lost or duplicated a record. No time is reported for such a run.
    """
    require_extras()
    from eoskafka.bench.latency import TAKING_PART, Settings, measure
    from eoskafka.bench.latency_report import LatencyReport, describe
    from eoskafka.bench.peers import BUILT_IN, BUILT_IN_REAL_TIME, FLINK, STREAMS
    from eoskafka.bench.stage import CORES

    known = {"built-in": BUILT_IN.name, "streams": STREAMS.name, "flink": FLINK.name}
    chosen = _chosen(names(peers), known)
    taking_part = _available(
        tuple(peer for peer in TAKING_PART if peer.is_ours or peer.name in chosen)
    )
    if partitions > CORES and BUILT_IN_REAL_TIME in taking_part:
        messages.print(
            f"left out: {BUILT_IN_REAL_TIME.label}: it needs a core for each partition, and there "
            f"are {CORES}",
            markup=False,
        )
        taking_part = tuple(peer for peer in taking_part if peer != BUILT_IN_REAL_TIME)
    brokers = brokers_of(bootstrap_servers, broker_count, round_trip_ms)
    settings = Settings(
        *(rate, seconds, warm_up, record_bytes, partitions, rounds, taking_part),
        spark_conf=conf_of(spark_conf),
    )
    run(
        lambda: LatencyReport(measure(settings, Messages(describe), brokers)),
        output,
        file,
        plot,
    )


@app.command(epilog="Example: eoskafka bench interval --intervals-ms 20,100 --rounds 1")
def interval(
    intervals_ms: Annotated[
        str,
        typer.Option(
            help="The commit intervals to compare, with commas between them: values of "
            "commitIntervalMs, and for Flink the intervals between its checkpoints, which are at "
            "least 10."
        ),
    ] = "10,25,50,100,250,1000",
    rate: Rate = 2_000,
    seconds: Annotated[
        int,
        typer.Option(help="How many seconds the timed part of each run at that rate lasts.", min=1),
    ] = 30,
    warm_up: WarmUp = 10,
    record_bytes: RecordBytes = 100,
    partitions: Partitions = 8,
    backlog: Annotated[
        int,
        typer.Option(
            help="How many records are in the topic when a query that measures throughput starts.",
            min=1,
        ),
    ] = 10_000_000,
    rounds: Annotated[int, typer.Option(help="How many timed runs each interval has.", min=1)] = 3,
    peers: Annotated[
        str,
        typer.Option(
            help="What eoskafka is compared with: flink (Apache Flink), or an empty text for "
            "nothing."
        ),
    ] = "flink",
    bootstrap_servers: Servers = None,
    broker_count: BrokerCount = 1,
    round_trip_ms: RoundTrip = 0.0,
    output: OutputFormat = Format.TEXT,
    file: OutputFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure how the commit interval changes latency and throughput in real-time mode, and compare
    that with Flink.

    Latency is measured at a steady rate. Throughput is measured with a topic that already has
    all its records when the query starts. The exit code is 1 if a run lost, duplicated or
    altered a record. No time is reported for such a run.
    """
    require_extras()
    from eoskafka.bench.interval import (
        FLINK_LEAST_MS,
        MOST_TRANSACTIONS,
        TAKING_PART,
        Settings,
        measure,
    )
    from eoskafka.bench.interval_report import IntervalReport, describe
    from eoskafka.bench.latency import Settings as LatencySettings
    from eoskafka.bench.peers import FLINK

    intervals = _numbers(intervals_ms, "--intervals-ms")
    chosen = _chosen(names(peers), {"flink": FLINK.name})
    taking_part = tuple(peer for peer in TAKING_PART if peer.is_ours or peer.name in chosen)
    if chosen and min(intervals) < FLINK_LEAST_MS:
        raise typer.BadParameter(
            f"Flink's checkpoints are at least {FLINK_LEAST_MS} ms apart; choose longer intervals, "
            "or --peers ''",
            param_hint="--intervals-ms",
        )
    if (warm_up + seconds) * 1_000 / min(intervals) > MOST_TRANSACTIONS:
        raise typer.BadParameter(
            f"with a commit every {min(intervals)} ms, --warm-up and --seconds together can be at "
            f"most {MOST_TRANSACTIONS * min(intervals) // 1_000}",
            param_hint="--seconds",
        )
    brokers = brokers_of(bootstrap_servers, broker_count, round_trip_ms)
    settings = Settings(
        intervals,
        LatencySettings(rate, seconds, warm_up, record_bytes, partitions, rounds, ()),
        backlog,
        rounds,
        _available(taking_part),
    )
    run(
        lambda: IntervalReport(measure(settings, Messages(describe), brokers)),
        output,
        file,
        plot,
    )


@app.command(epilog="Example: eoskafka bench scale --partitions 10,100 --rounds 1")
def scale(
    records: Annotated[
        int, typer.Option(help="How many records each input topic has.", min=1)
    ] = 1_000_000,
    partitions: Annotated[
        str,
        typer.Option(help="The numbers of input partitions to compare, with commas between them."),
    ] = "8,10,100,1000,2000,5000",
    slots: Annotated[
        str, typer.Option(help="The numbers of slots to compare, with commas between them.")
    ] = "1,2,4",
    planned: Annotated[
        str,
        typer.Option(
            help="The numbers of input partitions in the measurement of planning, with commas "
            "between them."
        ),
    ] = "100,1000,10000",
    batch_records: Annotated[
        str,
        typer.Option(
            help="The numbers of records in a batch to compare, with commas between them."
        ),
    ] = "10,1000,100000",
    rounds: Annotated[
        int, typer.Option(help="How many timed runs each measurement has.", min=1)
    ] = 3,
    output: OutputFormat = Format.TEXT,
    file: OutputFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure the effect of more partitions, more slots and smaller batches.

    The exit code is 1 if a run lost, duplicated or altered a record. No time is reported for such a
    run.
    """
    require_extras()
    from eoskafka.bench.scale import SLOTS_PARTITIONS, Settings, measure
    from eoskafka.bench.scale_report import ScaleReport, describe

    wanted_slots = _numbers(slots, "--slots")
    if max(wanted_slots) > SLOTS_PARTITIONS:
        raise typer.BadParameter(
            f"the input topic has {SLOTS_PARTITIONS} partitions, so there cannot be more slots",
            param_hint="--slots",
        )
    settings = Settings(
        records,
        _numbers(partitions, "--partitions"),
        wanted_slots,
        _numbers(planned, "--planned"),
        _numbers(batch_records, "--batch-records"),
        rounds,
    )
    run(lambda: ScaleReport(measure(settings, Messages(describe))), output, file, plot)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        found = tuple(int(name) for name in names(text))
    except ValueError as error:
        raise typer.BadParameter(
            f"'{text}' is not a list of whole numbers with commas between them", param_hint=option
        ) from error
    if not found or min(found) < 1:
        raise typer.BadParameter("the numbers must be 1 or more", param_hint=option)
    return found


@app.command(epilog="Example: eoskafka bench epoch --rounds 3 --output result.json --format json")
def epoch(
    batch_records: Annotated[
        int,
        typer.Option(
            help="How many input records each batch of the windowed aggregation has; a multiple "
            "of 8000.",
            min=8_000,
        ),
    ] = 200_000,
    batches: Annotated[
        int,
        typer.Option(help="How many batches each query runs. The first one is not timed.", min=2),
    ] = 8,
    shuffle_partitions: Annotated[
        int,
        typer.Option(help="How many writers each batch of the windowed aggregation has.", min=1),
    ] = 8,
    writers: Annotated[
        int,
        typer.Option(
            help="The number of writers in the measurement of an epoch with many writers.", min=1
        ),
    ] = 200,
    rounds: Annotated[
        int, typer.Option(help="How many timed runs each measurement has.", min=1)
    ] = 5,
    broker_count: BrokerCount = 1,
    round_trip_ms: RoundTrip = 0.0,
    output: OutputFormat = Format.TEXT,
    file: OutputFile = None,
) -> None:
    """Measure how long a batch of a windowed aggregation takes, and how long many writers take to
    commit.

    The aggregation also runs with the built-in connector. The exit code is 1 if a run lost,
    duplicated or altered a record. No time is reported for such a run.
    """
    require_extras()
    from eoskafka.bench.epoch import Settings, measure
    from eoskafka.bench.epoch_report import EpochReport, describe

    if batch_records % 8_000:
        raise typer.BadParameter("must be a multiple of 8,000", param_hint="--batch-records")
    settings = Settings(batch_records, batches, shuffle_partitions, writers, rounds)
    brokers = brokers_of(None, broker_count, round_trip_ms)
    run(lambda: EpochReport(measure(settings, Messages(describe), brokers)), output, file)
