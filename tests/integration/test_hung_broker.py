"""A broker that keeps its connections and answers nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import until
from py4j.protocol import Py4JJavaError
from streams import Streams

WAIT_S = 20
ROUNDS = 3


@pytest.mark.slow
def test_a_call_that_a_broker_does_not_answer_is_tried_on_another_one(
    streams: Streams, tmp_path: Path
) -> None:
    """A request may take three seconds, and a call a minute."""
    with LocalCluster(data_dir=tmp_path / "cluster", brokers=3) as cluster:
        admin = client(streams, cluster.bootstrap_servers)
        try:
            until(lambda: is_answered(streams, admin), "brokers that answer", 60)
            # The client mostly keeps to the one that it has asked last, and sometimes to none.
            for broker in cluster.brokers * ROUNDS:
                assert broker.pid is not None
                os.kill(broker.pid, signal.SIGSTOP)
                try:
                    assert is_answered(streams, admin), f"no answer within {WAIT_S} s"
                finally:
                    os.kill(broker.pid, signal.SIGCONT)
        finally:
            admin.close(streams.spark._jvm.java.time.Duration.ofSeconds(0))  # type: ignore[union-attr]


def is_answered(streams: Streams, admin: Any) -> bool:
    """Whether one of the brokers says in time which topics there are."""
    seconds: Any = streams.spark._jvm.java.util.concurrent.TimeUnit.SECONDS  # type: ignore[union-attr]
    try:
        admin.listTopics().names().get(WAIT_S, seconds)
    except Py4JJavaError as error:
        if "TimeoutException" not in str(error.java_exception):
            raise
        return False
    return True


def client(streams: Streams, servers: str) -> Any:
    """An admin client with the connector's settings."""
    jvm: Any = streams.spark._jvm
    gateway: Any = streams.spark.sparkContext._gateway
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def call_static(name: str, method: str, type_name: str, argument: object) -> Any:
        """Py4J does not find the classes of jars that a session adds."""
        types, arguments = (
            gateway.new_array(jvm.java.lang.Class, 1),
            gateway.new_array(jvm.java.lang.Object, 1),
        )
        types[0], arguments[0] = loader.loadClass(type_name), argument
        return loader.loadClass(name).getMethod(method, types).invoke(None, arguments)

    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.request.timeout.ms": "3000",
        "subscribe": "any",
    }
    insensitive = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap
    parsed = call_static(
        "io.eoskafka.config.SourceOptions",
        "parse",
        "org.apache.spark.sql.util.CaseInsensitiveStringMap",
        insensitive(jvm.java.util.HashMap(options)),
    )
    return call_static(
        "io.eoskafka.shaded.kafka.clients.admin.Admin",
        "create",
        "java.util.Map",
        parsed.client().admin("test"),
    )
