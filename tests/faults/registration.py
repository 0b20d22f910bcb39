"""`make registration`: what `registerTopics` costs and saves, in requests per transaction.

One job in task scope, in small batches that follow each other at once, on one broker behind a proxy
that counts: with either transaction version, with and without the option. Then, by version 1, on
three brokers, one of which is stopped as a transaction ends, so that the next one has to wait. The
output is compared with the input each time.

Exit code 0: every output was right. Figures are for reading, not for judging.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eoskafka.cluster.broker import Broker
from harness import Application, Flow, Query, until
from kafka.admin import KafkaAdminClient, NewTopic

from faults.cluster import FaultyCluster
from faults.proxy import Api

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDS = 12_000
PER_BATCH = 200
HELD_S = 3.0
COUNTED = (
    Api.ADD_PARTITIONS_TO_TXN,
    Api.ADD_OFFSETS_TO_TXN,
    Api.PRODUCE,
    Api.TXN_OFFSET_COMMIT,
    Api.END_TXN,
)


def main() -> int:
    """Run the four jobs and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "registration.md")
    report = parser.parse_args().report
    rows = [row for version in (1, 2) for row in measured(version)]
    lines = table(rows)
    held = table([waited(registered) for registered in (False, True)])
    text = f"""# Registration

`make registration`. One job in task scope: {RECORDS:,} records in batches of {PER_BATCH}, two
slots, four output partitions, one broker. Requests per transaction, counted by a proxy: P is
AddPartitionsToTxn, O is AddOffsetsToTxn, each with how many were refused because the former
transaction of the same producer was not over.

| version | `registerTopics` | P | refused | O | refused | Produce | offsets | transactions |
|---|---|---|---|---|---|---|---|---|
{lines}

By version 1 a registered transaction sends AddPartitionsToTxn and AddOffsetsToTxn once more: its
producer sends its own as before. By version 2 nothing is sent either way.

## When the former transaction is not over

Version 1, three brokers. The output's leader is stopped for {HELD_S:.0f} s after a transaction's
offsets were sent and before its end, so its markers are held up while the next transaction begins.

| `registerTopics` | P | refused | the next transaction waits in |
|---|---|---|---|
{held}

Without the option the wait has the bound of a record's delivery (`kafka.delivery.timeout.ms`), with
it that of a call (`kafka.max.block.ms`), and an error that says what it has waited for.
"""
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(text, encoding="utf-8")
    print(text)
    return 0


def table(rows: list[list[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def measured(version: int) -> list[list[str]]:
    """A row of the table without the option, and one with it."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="eoskafka-registration-") as name:
        folder = Path(name)
        (folder / "application").mkdir()
        features = {"transaction.version": version}
        with (
            FaultyCluster(folder / "cluster", brokers=1, features=features) as cluster,
            Application(folder / "application", "local[2]") as application,
        ):
            (proxy,) = cluster.proxies.values()
            for registered in (False, True):
                flow = Flow(cluster.bootstrap_servers, folder / f"checkpoint{registered}")
                flow.produce(RECORDS)
                before, refused = Counter(proxy.requests), Counter(proxy.refused)
                sink = {"registerTopics": flow.output} if registered else {}
                query = flow.start(application, maxOffsetsPerTrigger=PER_BATCH, sink=sink)
                query.wait_done(timeout_s=300)
                requests = Counter(proxy.requests) - before
                again = Counter(proxy.refused) - refused
                flow.assert_exactly_once()
                ends = requests[Api.END_TXN]
                row = [str(version), "yes" if registered else "no"]
                for api in COUNTED[:-1]:
                    row.append(f"{requests[api] / ends:.2f}")
                    if api in (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN):
                        row.append(f"{again[api] / ends:.2f}")
                rows.append([*row, str(ends)])
    return rows


@dataclass(frozen=True)
class HeldUp:
    """A query by version 1 whose output is on a broker that it needs for nothing else.

    While that broker is stopped, a transaction's end is decided and its markers do not arrive.
    """

    cluster: FaultyCluster
    flow: Flow
    leader: Broker

    def hold(self, application: Application, registered: bool, **sink: str) -> Query:
        """Start the query, and stop the leader as the first of its two transactions ends."""
        if registered:
            sink["registerTopics"] = self.flow.output
        query = self.flow.reach(
            application, "after-offsets", "stop", maxOffsetsPerTrigger=10, sink=sink, **QUICK
        )
        self.leader.pause()
        application.resume(application.faults.wait_taken("after-offsets"))
        return query

    def requests(self) -> Counter[int]:
        """All requests until now."""
        return sum((Counter(p.requests) for p in self.cluster.proxies.values()), Counter())

    def refused(self) -> int:
        """How often AddPartitionsToTxn was refused because the former transaction is not over."""
        return sum(p.refused[Api.ADD_PARTITIONS_TO_TXN] for p in self.cluster.proxies.values())


# A stopped broker is asked for metadata as well; the clients turn to another one after this time.
QUICK = {"kafka.request.timeout.ms": "3000"}


@contextmanager
def held_up(folder: Path) -> Iterator[HeldUp]:
    """Three brokers, of which the third has the output and nothing else."""
    features = {"transaction.version": 1}
    properties: dict[str, str] = {}
    for kind in ("transaction.state.log", "offsets.topic"):
        properties |= {f"{kind}.num.partitions": "1", f"{kind}.replication.factor": "1"}
    with FaultyCluster(folder / "cluster", features=features, properties=properties) as cluster:
        name = f"t{uuid.uuid4().hex[:10]}"
        places = {"__transaction_state": 1, "__consumer_offsets": 2, f"{name}-in": 1}
        with closing(KafkaAdminClient(bootstrap_servers=cluster.direct_servers)) as admin:
            for topic, broker in {**places, f"{name}-out": 3}.items():
                compacted = {"cleanup.policy": "compact"} if topic.startswith("_") else {}
                placed = {0: [broker]}
                new = NewTopic(topic, replica_assignments=placed, topic_configs=compacted)
                admin.create_topics([new])
                admin.wait_for_topics([topic])
        # Clients keep to the broker that they have asked first.
        first = f"127.0.0.1:{cluster.proxies[3].port}"
        flow = Flow(first, folder / "checkpoint", partitions=1, name=name)
        flow.produce(20)
        leader = cluster.brokers[3]
        try:
            yield HeldUp(cluster, flow, leader)
        finally:
            leader.resume()


def waited(registered: bool) -> list[str]:
    """A row of the second table."""
    with tempfile.TemporaryDirectory(prefix="eoskafka-registration-") as name:
        folder = Path(name)
        (folder / "application").mkdir()
        with (
            held_up(folder) as held,
            Application(folder / "application", "local-cluster[1,1,1024]") as application,
        ):
            query = held.hold(application, registered)
            before = held.requests()
            until(held.refused, "a transaction that waits", 30)
            time.sleep(HELD_S)
            sent = (held.requests() - before)[Api.ADD_PARTITIONS_TO_TXN]
            refused = held.refused()
            held.leader.resume()
            query.wait_done()
            held.flow.assert_exactly_once()
    where = "begin, before its first record" if registered else "its first record's delivery"
    return ["yes" if registered else "no", str(sent), str(refused), where]


if __name__ == "__main__":
    raise SystemExit(main())
