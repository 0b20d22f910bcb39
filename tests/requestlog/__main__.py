"""`make requests`: which requests a query's driver and its tasks send, and in which order.

Short queries on one broker in task scope, in epoch scope, in a shared group, and in real-time mode.
A change of the code that is not meant to change what is sent leaves the report as it is.

Exit code 0: the report was written. 1: with `--check`, the requests differ from the report's.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from eoskafka import real_time_trigger
from eoskafka._jar import build_properties
from eoskafka.audit import UndecidedError
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker
from eoskafka.session import REAL_TIME_CHECK
from harness import until
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from mutations.run import DIGEST_CHARS, head
from prove import provenance
from sessions import settings, start_session
from streams import QUERY_S, Job, Streams, kv

from requestlog import log
from requestlog.log import Request

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "requests.md"
PARTITIONS = 2
PER_BATCH = 20
# Each run reads what has come since the last one.
RUNS = {
    "the first start, one batch": 1,
    "a later start, one batch": 1,
    "a later start, two batches": 2,
}
# Longer than a run, so that it has one batch.
LONG_BATCH = "10 minutes"
HEAD = "# Requests"
TEXT = """
`make requests`. Short queries on one broker and one core, so that a batch has one task for its
{partitions} partitions. Each line has a client's requests in the order in which it has sent them,
by the log of the broker. Several of one kind in a row are named once; in real-time mode this
applies to groups of requests, too. Left out are requests whose number depends on timing, such as
polls and heartbeats, and those with which a driver looks at its topics and its group's members
again after some seconds (`tests/requestlog/log.py` lists them). In a client id RUN, GROUP, IDENTITY
and NUMBER stand for what differs from run to run.
"""


def main() -> int:
    """Run the queries, and write the report or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--keep", type=Path, help="where to put the broker's log")
    arguments = parser.parse_args()
    report: Path = arguments.report
    body = recorded(arguments.keep)
    if arguments.check:
        before = report.read_text(encoding="utf-8").partition("\n## ")
        differences = [*difflib.unified_diff(f"## {before[2]}".splitlines(), body.splitlines())]
        print("\n".join(differences) or f"the requests are those of {report}")
        return 1 if differences else 0
    text = TEXT.format(partitions=PARTITIONS)
    head = f"{HEAD}\n{text}\n{connector()}\n\n"
    report.write_text(head + body, encoding="utf-8")
    print(f"{report} was written")
    return 0


def recorded(keep: Path | None = None) -> str:
    """The report's sections, one for each kind of query."""
    with (
        tempfile.TemporaryDirectory(prefix="eoskafka-requests-") as name,
        # With one core a batch's tasks follow each other, so the order of the client that all tasks
        # of an executor share does not depend on timing.
        logged(Path(name), cores=1) as (streams, cluster),
    ):
        (broker,) = cluster.brokers
        lines = [*sections(streams, broker.log_file)]
        if keep:
            shutil.copy(broker.log_file, keep)
    return "\n".join(lines)


@contextmanager
def logged(
    folder: Path, cores: int, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[Streams, LocalCluster]]:
    """Queries on a broker that logs all requests.

    Args:
        cores: of the session.
        properties: further settings of the broker.
    """
    spark = start_session(folder, cores)
    try:
        with (
            LocalCluster(data_dir=folder / "cluster", properties=properties) as cluster,
            closing(Streams(spark, cluster.bootstrap_servers, folder)) as streams,
        ):
            # So that no query waits for the brokers' own topics.
            warm(streams)
            log_requests(streams.admin, cluster.brokers[0], "DEBUG")
            yield streams, cluster
    finally:
        spark.stop()


def log_requests(admin: KafkaAdminClient, broker: Broker, level: str) -> None:
    """Let a broker log its requests (`DEBUG`), or no longer (`INFO`)."""
    logger = ConfigResource(
        ConfigResourceType.BROKER_LOGGER, str(broker.node_id), configs={log.LOGGER: level}
    )
    admin.alter_configs([logger])


def warm(streams: Streams) -> None:
    """Run a query in each scope."""
    job = streams.job(PARTITIONS, PER_BATCH)
    job.run()
    other = streams.job(PARTITIONS, PER_BATCH)
    streams.run(other.in_epoch_scope())


def sections(streams: Streams, logged: Path) -> Iterator[str]:
    """The lines of all sections."""
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        ("Task scope", "task", {}),
        ("Epoch scope", "epoch", {}),
        ("A shared group", "task", {"ownership": "shared"}),
    ]
    for title, scope, options in kinds:
        job = streams.job(PARTITIONS)
        for run, batches in RUNS.items():
            job.send(*range(PER_BATCH * batches))
            writer = job.writer(maxOffsetsPerTrigger=PER_BATCH, **options)
            writer = writer.option("transactionScope", scope)
            sent = during(streams.servers, logged, partial(streams.run, writer))
            unordered = log.AFTER_REBALANCE if options else ()
            yield from section(f"{title}: {run}", log.sequences(sent, unordered))
    job = streams.job(partitions=1)
    with settings(streams.spark, {REAL_TIME_CHECK: "false"}):
        for count, run in enumerate(("the first start", "a later start"), start=1):
            sent = during(streams.servers, logged, partial(real_time, job, count))
            yield from section(f"Real-time mode: {run}", log.sequences(log.once(sent)))


def real_time(job: Job, count: int) -> None:
    """Run one long batch until it has read new records, twice."""
    rows = kv(job.streams.source(job.input, {"kafka.group.id": job.group}))
    writer = job.streams.sink(rows, job.output, job.checkpoint, mode="update")
    query = job.streams.start(real_time_trigger(writer, LONG_BATCH))
    for part in (2 * count - 1, 2 * count):
        job.send(*range(PER_BATCH))

        def are_there(wanted: int = part * PER_BATCH) -> bool:
            assert query.isActive, query.exception()
            try:
                return len(job.written()) == wanted
            except UndecidedError:
                return False

        until(are_there, f"{part * PER_BATCH} records in the output", QUERY_S)
    query.stop()


def during(servers: str, logged: Path, action: Callable[[], Any]) -> list[Request]:
    """The requests of the connector's clients while this is done."""
    start = logged.stat().st_size

    def text() -> str:
        with logged.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", errors="replace")

    action()
    # The broker logs a request after it has answered it.
    last = f"last-{uuid.uuid4().hex}"
    with closing(KafkaAdminClient(bootstrap_servers=servers, client_id=last)) as admin:
        admin.list_topics()
    until(lambda: last in text(), "the end of the broker's log", QUERY_S)
    return log.parse(text())


def section(title: str, lines: list[str]) -> Iterator[str]:
    """A run's lines."""
    yield f"## {title}\n"
    yield from (f"- {line}" for line in lines)
    yield ""


def connector() -> str:
    """Which connector this was: the digest of its sources stays when a commit is moved.

    That of another jar counts comments and messages, too.
    """
    other = os.environ.get("EOSKAFKA_JAR")
    sources = (
        build_properties(Path(other))["sources"][:DIGEST_CHARS] if other else provenance.connector()
    )
    return f"The connector's sources: {sources}. Commit: {head()}."


if __name__ == "__main__":
    raise SystemExit(main())
