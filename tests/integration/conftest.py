"""The cluster that integration tests share, and what they run on it."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from eoskafka.schemas import Registry
from harness import Application, Flow, StartApplication
from harness.application import applications
from harness.log_ins import ALLOWED_URLS, LogIns
from harness.registry import RegistryServer
from harness.standalone import Standalone
from harness.versions import needs_built_in
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import SparkSession
from sessions import settings, start_session
from shared_groups import IMPATIENT
from shop import TOTAL, V1, Shop
from streams import Streams

# Asks for rights; what has no rules is open.
_GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker for the whole session; use `cluster`, which also keeps its log."""
    with LocalCluster(brokers=1, data_dir=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: LocalCluster, keep_logs: list[Path]) -> LocalCluster:
    """A running one-broker cluster, shared: use topic and group names of your own."""
    keep_logs += [broker.log_file for broker in shared_cluster.brokers]
    return shared_cluster


@pytest.fixture
def flow(cluster: LocalCluster, tmp_path: Path) -> Flow:
    """A query's topics, group and checkpoint: two input partitions."""
    return Flow(cluster.bootstrap_servers, tmp_path / "checkpoint")


@pytest.fixture
def start_application(tmp_path: Path, keep_logs: list[Path]) -> Iterator[StartApplication]:
    """Starts Spark applications that end with the test."""
    with applications(tmp_path, keep_logs) as start:
        yield start


@pytest.fixture(scope="module")
def shared_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Two executors of one core each; of one module; use `application`."""
    folder = tmp_path_factory.mktemp("application")
    with Application(folder, "local-cluster[2,1,1024]") as application:
        yield application


@pytest.fixture
def application(shared_application: Application, keep_logs: list[Path]) -> Iterator[Application]:
    """Shared, with both executors there and nothing armed."""
    with shared_application.lent(keep_logs) as lent:
        lent.wait_executors(2)
        yield lent


@pytest.fixture(scope="module")
def shared_local_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Its driver is its executor; of one module; use `local_application`."""
    with Application(tmp_path_factory.mktemp("application"), "local[2]") as application:
        yield application


@pytest.fixture
def local_application(
    shared_local_application: Application, keep_logs: list[Path]
) -> Iterator[Application]:
    """Shared, with nothing armed."""
    with shared_local_application.lent(keep_logs) as lent:
        yield lent


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, made from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(root)],
        check=True,
        timeout=300,
    )
    (wheel,) = folder.glob("eoskafka-*.whl")
    return wheel


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shared session keeps its files; its INFO log is `spark.log`."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def shared_spark(spark_folder: Path) -> Iterator[SparkSession]:
    """One session in this process for all tests that need no process to kill; use `streams`."""
    spark = start_session(spark_folder)
    yield spark
    ended = spark.sparkContext._gateway.proc.poll()  # type: ignore[union-attr]
    assert ended is None, f"the driver's JVM ended with {ended}: {spark_folder}/spark.log"
    spark.stop()


@pytest.fixture
def streams(
    shared_spark: SparkSession,
    spark_folder: Path,
    cluster: LocalCluster,
    tmp_path: Path,
    keep_logs: list[Path],
) -> Iterator[Streams]:
    """Queries on the shared session and broker; they end with the test."""
    keep_logs.append(spark_folder / "spark.log")
    with closing(Streams(shared_spark, cluster.bootstrap_servers, tmp_path)) as streams:
        yield streams


@pytest.fixture
def shop(streams: Streams) -> Iterator[Shop]:
    """A registry with the schemas of orders and totals."""
    with RegistryServer(first_id=300).running() as server:
        server.add("orders", V1)
        server.add("totals", TOTAL)
        yield Shop(streams, server, Registry(server.url))


@pytest.fixture
def few_at_once(streams: Streams) -> Iterator[None]:
    """Python gets twenty rows at a time."""
    with settings(streams.spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "20"}):
        yield


@pytest.fixture(
    params=["eoskafka", pytest.param("kafka", marks=[pytest.mark.slow, needs_built_in])]
)
def either(streams: Streams, request: pytest.FixtureRequest) -> Streams:
    """`streams` with this connector, and with Spark's own: what both do alike."""
    streams.form = request.param
    return streams


@pytest.fixture(scope="module")
def short_session_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker that gives a member of either protocol up after six seconds."""
    with LocalCluster(
        brokers=1, data_dir=tmp_path_factory.mktemp("impatient"), properties=IMPATIENT
    ) as cluster:
        yield cluster


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    """A master with workers, of one test; jobs are submitted to it."""
    folder = tmp_path / "standalone"
    folder.mkdir()
    with Standalone(folder) as cluster:
        yield cluster


@pytest.fixture
def topics(cluster: LocalCluster) -> Iterator[tuple[str, str]]:
    """The input and the output of a job that is submitted: four partitions each."""
    names = [f"job-{uuid.uuid4().hex[:8]}-{end}" for end in ("in", "out")]
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(name, 4, 1) for name in names])
        yield names[0], names[1]
        admin.delete_topics(names)


@pytest.fixture(scope="module")
def log_ins(
    tmp_path_factory: pytest.TempPathFactory, shared_spark: SparkSession
) -> Iterator[LogIns]:
    """A broker with a listener for each kind of log-in, whose token service the session may ask."""
    system: Any = shared_spark._jvm.System  # type: ignore[union-attr]
    with LogIns(tmp_path_factory.mktemp("log-ins")).running() as found:
        # By Kafka's name, and as the client in the jar asks for it.
        for package in ("org.apache.kafka", "io.eoskafka.shaded.kafka"):
            system.setProperty(f"{package}.{ALLOWED_URLS}", found.tokens.url)
        yield found


@pytest.fixture
def there(
    shared_spark: SparkSession, log_ins: LogIns, tmp_path: Path, keep_logs: list[Path]
) -> Iterator[Streams]:
    """Queries on that broker, whose test itself needs no log-in."""
    keep_logs += [broker.log_file for broker in log_ins.cluster.brokers]
    with closing(Streams(shared_spark, log_ins.cluster.bootstrap_servers, tmp_path)) as streams:
        yield streams


@pytest.fixture(scope="module")
def guarded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker that asks for rights."""
    data_dir = tmp_path_factory.mktemp("guarded")
    with LocalCluster(brokers=1, data_dir=data_dir, properties=_GUARDED) as cluster:
        yield cluster


@pytest.fixture
def guarded(
    shared_spark: SparkSession, guarded_cluster: LocalCluster, tmp_path: Path
) -> Iterator[Streams]:
    """Queries on that broker."""
    with closing(Streams(shared_spark, guarded_cluster.bootstrap_servers, tmp_path)) as streams:
        yield streams
