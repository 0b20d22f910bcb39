"""A job for spark-submit on a standalone cluster: killed, told to end, and submitted again."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka import jar_path
from eoskafka.audit import UndecidedError, read_committed
from eoskafka.cluster import LocalCluster
from eoskafka.session import PLUGIN_CLASS
from harness import until
from harness.standalone import Standalone, Submitted
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
JOB = ROOT / "notebooks" / "job.py"
ENDING = Path(__file__).parent / "harness" / "ending.py"
INPUT, OUTPUT = "submitted", "submitted-clean"
PARTITIONS = 4
OUTPUT_S, END_S = 120, 60
OPEN = ["Ongoing", "PrepareCommit", "PrepareAbort"]


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (INPUT, OUTPUT)])
        yield admin
        admin.delete_topics([INPUT, OUTPUT])


def send(cluster: LocalCluster, numbers: range) -> None:
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5)) as to:
        for n in numbers:
            to.send(INPUT, key=b"k%d" % n, value=b"payment %d" % n, partition=n % PARTITIONS)


def written(cluster: LocalCluster, topic: str = OUTPUT) -> list[int]:
    records = read_committed(cluster.bootstrap_servers, topic)
    return sorted(
        int((record.value or b"").upper().removeprefix(b"PAYMENT ")) for record in records
    )


def grows(cluster: LocalCluster, topic: str) -> bool:
    with closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)) as reader:
        ends = reader.end_offsets([TopicPartition(topic, p) for p in range(PARTITIONS)])
    return bool(sum(ends.values()) > 0)


@pytest.mark.timeout(600)
def test_a_job_that_is_killed_replaced_told_to_end_and_submitted_again(
    standalone: Standalone,
    cluster: LocalCluster,
    admin: KafkaAdminClient,
    wheel: Path,
    tmp_path: Path,
) -> None:
    # What spark-submit is given is all that it has: the jar, and the package in an archive.
    jar = shutil.copy(jar_path(), tmp_path / "connector.jar")
    assert any("jars/eoskafka-" in name for name in zipfile.ZipFile(wheel).namelist())
    job = shutil.copy(JOB, tmp_path / "job.py")
    checkpoint = tmp_path / "checkpoint"

    def submit(*more: str, options: tuple[str, ...] = ()) -> Submitted:
        return standalone.submit(
            Path(job),
            [
                *("--servers", cluster.bootstrap_servers, "--checkpoint", str(checkpoint)),
                *("--input", INPUT, "--output", OUTPUT, *more),
            ],
            *("--jars", str(jar), "--py-files", str(wheel)),
            *("--conf", f"spark.plugins={PLUGIN_CLASS}", *options),
        )

    def wait(job: Submitted, numbers: range) -> None:
        def is_there() -> bool:
            try:
                return not job.is_running() or written(cluster) == [*numbers]
            except UndecidedError:
                # The killed driver's transactions, until the next one ends them.
                return False

        until(is_there, "the output", OUTPUT_S, job.text)
        assert written(cluster) == [*numbers], job.text()

    send(cluster, range(1_000))
    first = submit()
    wait(first, range(1_000))
    send(cluster, range(1_000, 20_000))
    first.kill()
    second = submit()
    wait(second, range(20_000))
    identity = checkpoint / "sources" / "0" / "eoskafka-identity.json"
    group = json.loads(identity.read_text(encoding="utf-8"))["group"]
    assert admin.describe_groups([group])[group]["members"]
    # One more takes over, and whoever restarts failed drivers must not restart the former one.
    third = submit(options=("--master", "local[2]"))
    assert second.wait(OUTPUT_S) == 0, second.text()
    assert "ends: EOSKAFKA_" in second.text()
    send(cluster, range(20_000, 40_000))
    wait(third, range(40_000))
    send(cluster, range(40_000, 60_000))
    third.terminate()
    # Whoever waits for it must not take the input for used up.
    assert third.wait(END_S) != 0
    # No transaction that a reader would have to wait for, and the group's place is free.
    listed = admin.list_transactions(state_filters=OPEN)
    assert [t for each in listed.values() for t in each if group in t.transactional_id] == []
    assert admin.describe_groups([group])[group]["members"] == []
    fourth = submit(
        "--once",
        options=(
            *("--conf", "spark.dynamicAllocation.enabled=true"),
            *("--conf", "spark.dynamicAllocation.shuffleTracking.enabled=true"),
            *("--conf", "spark.dynamicAllocation.executorIdleTimeout=1s"),
        ),
    )
    assert fourth.wait(OUTPUT_S) == 0, fourth.text()
    assert written(cluster) == [*range(60_000)]


@pytest.mark.parametrize(
    ("how", "queries"), [("stops", 2), ("swallows", 1), ("restarts", 1), ("dawdles", 1)]
)
def test_sigterm_ends_programs_that_handle_errors_themselves(
    how: str,
    queries: int,
    standalone: Standalone,
    cluster: LocalCluster,
    admin: KafkaAdminClient,
    tmp_path: Path,
) -> None:
    outputs = [f"{OUTPUT}-{how}-{number}" for number in range(2)]
    admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in outputs])

    def submit(what: str) -> Submitted:
        arguments = [what, cluster.bootstrap_servers, INPUT, f"{OUTPUT}-{how}", f"{tmp_path}/cp"]
        return standalone.submit(
            ENDING,
            arguments,
            *("--master", "local[2]", "--jars", os.environ.get("EOSKAFKA_JAR") or str(jar_path())),
            *("--conf", f"spark.plugins={PLUGIN_CLASS}"),
        )

    send(cluster, range(60_000))
    job = submit(how)

    def has_begun() -> bool:
        return not job.is_running() or all(grows(cluster, topic) for topic in outputs[:queries])

    until(has_begun, "some output", OUTPUT_S, job.text)
    assert job.is_running(), job.text()
    job.terminate()
    assert job.wait(END_S) != 0
    listed = admin.list_transactions(state_filters=OPEN)
    ids = [t.transactional_id for each in listed.values() for t in each]
    for number in range(queries):
        identity = tmp_path / f"cp-{number}" / "sources" / "0" / "eoskafka-identity.json"
        group = json.loads(identity.read_text(encoding="utf-8"))["group"]
        assert [name for name in ids if group in name] == []
        assert admin.describe_groups([group])[group]["members"] == []
    if how == "swallows":
        # What its function has swallowed it has lost itself.
        found = written(cluster, outputs[0])
        assert len(found) == len(set(found))
        return
    again = submit("once")
    assert again.wait(OUTPUT_S) == 0, again.text()
    for topic in outputs:
        assert written(cluster, topic) == [*range(60_000)]
