"""Kerberos: queries in each mode, in one process and in executors of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from eoskafka import real_time_trigger
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker
from eoskafka.cluster.local import free_ports
from eoskafka.session import REAL_TIME_CHECK
from harness import Flow, StartApplication
from harness.kdc import REALM, Kdc, is_installed
from harness.log_ins import java_options
from harness.versions import needs_real_time
from pyspark.sql import SparkSession
from sessions import settings
from streams import Streams, kv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_installed(), reason="krb5kdc is not installed (Debian: krb5-kdc)"),
]

_MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


class Kerberos(NamedTuple):
    cluster: LocalCluster
    config: Path
    options: dict[str, str]


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    folder = tmp_path_factory.mktemp("kerberos")
    (port,) = free_ports(1)
    with Kdc(folder).running() as kdc:
        of_broker, of_user = kdc.keytab("kafka/localhost"), kdc.keytab("job")

        def listeners(broker: Broker) -> dict[str, str]:
            plain, control = broker.port, broker.controller_port
            return {
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},KERBEROS://127.0.0.1:{port},"
                f"CONTROLLER://127.0.0.1:{control}",
                # The name that the broker's principal has.
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},"
                f"KERBEROS://localhost:{port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
                "KERBEROS:SASL_PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "listener.name.kerberos.sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.kerberos.gssapi.sasl.jaas.config": _jaas(
                    of_broker, "kafka/localhost"
                ),
                "sasl.kerberos.service.name": "kafka",
            }

        options = {
            "kafka.bootstrap.servers": f"localhost:{port}",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.service.name": "kafka",
            "kafka.sasl.jaas.config": _jaas(of_user, "job"),
        }
        cluster = LocalCluster(brokers=1, data_dir=folder / "cluster", properties=listeners)
        with java_options(f"-Djava.security.krb5.conf={kdc.config}"):
            cluster.start()
        try:
            yield Kerberos(cluster, kdc.config, options)
        finally:
            cluster.stop()


@pytest.fixture
def there(
    shared_spark: SparkSession, kerberos: Kerberos, tmp_path: Path, keep_logs: list[Path]
) -> Iterator[Streams]:
    """Queries on that broker, whose test itself needs no log-in."""
    keep_logs += [broker.log_file for broker in kerberos.cluster.brokers]
    system: Any = shared_spark._jvm.System  # type: ignore[union-attr]
    system.setProperty("java.security.krb5.conf", str(kerberos.config))
    with closing(Streams(shared_spark, kerberos.cluster.bootstrap_servers, tmp_path)) as streams:
        yield streams


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_query_logs_in(there: Streams, kerberos: Kerberos, scope: str) -> None:
    topic, output = there.topic(records=10), there.topic()
    rows = kv(there.source(topic, kerberos.options))
    there.run(there.sink(rows, output, None, {**kerberos.options, "transactionScope": scope}))
    assert there.numbers(output) == [*range(10)]


@needs_real_time
def test_a_query_in_real_time_mode_logs_in(there: Streams, kerberos: Kerberos) -> None:
    topic, output = there.topic(records=10), there.topic()
    rows = kv(there.source(topic, kerberos.options))
    with settings(there.spark, {REAL_TIME_CHECK: "false"}):
        writer = there.sink(rows, output, None, kerberos.options, mode="update")
        query = there.start(real_time_trigger(writer, "10 minutes"))
        there.wait_written(output, range(10), query)
        query.stop()


def test_a_batch_job_logs_in(there: Streams, kerberos: Kerberos) -> None:
    topic, output = there.topic(records=10), there.topic()
    there.save(kv(there.batch(topic, kerberos.options)), output, kerberos.options)
    assert there.numbers(output) == [*range(10)]


def test_a_missing_keytab_is_an_error_that_says_why(there: Streams, kerberos: Kerberos) -> None:
    options = {**kerberos.options, "kafka.sasl.jaas.config": _jaas(Path("/nowhere"), "job")}
    rows = kv(there.source(there.topic(records=1), options))
    error = there.failure(there.sink(rows, there.topic(), None, options))
    assert "[EOSKAFKA_LOG_IN_FAILED]" in error
    assert "LoginException" in error


def test_executors_log_in(
    kerberos: Kerberos, start_application: StartApplication, tmp_path: Path
) -> None:
    java = f"-Djava.security.krb5.conf={kerberos.config}"
    application = start_application(
        "local-cluster[2,1,1024]",
        spark_driver_defaultJavaOptions=java,
        spark_executor_defaultJavaOptions=java,
    )
    options = kerberos.options
    # In task scope and in epoch scope.
    for transform in ("exclaim", "repartitioned"):
        flow = Flow(kerberos.cluster.bootstrap_servers, tmp_path / transform)
        flow.produce(100)
        flow.start(application, transform=transform, sink=options, **options).wait_done()
        flow.assert_exactly_once()


def _jaas(keytab: Path, principal: str) -> str:
    return f'{_MODULE} keyTab="{keytab}" principal="{principal}@{REALM}";'
