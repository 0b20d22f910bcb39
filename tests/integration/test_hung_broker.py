"""A broker that takes connections and answers nothing."""

from __future__ import annotations

import socket
from typing import Any

from py4j.protocol import Py4JJavaError
from streams import Streams

TRIES, WAIT_S = 30, 20


def test_a_call_that_a_broker_does_not_answer_is_tried_on_another_one(streams: Streams) -> None:
    """A call may take a minute, and a request two seconds."""
    was_asked = False
    with socket.create_server(("127.0.0.1", 0)) as hung:
        hung.setblocking(False)
        servers = f"127.0.0.1:{hung.getsockname()[1]},{streams.servers}"
        options = {
            "kafka.bootstrap.servers": servers,
            "kafka.request.timeout.ms": "2000",
            "subscribe": "any",
        }
        for _ in range(TRIES):
            # Each client begins with one of the two, by chance.
            assert answers(streams, options), f"no answer within {WAIT_S} s"
            try:
                hung.accept()[0].close()
            except BlockingIOError:
                continue
            was_asked = True
            break
    assert was_asked


def answers(streams: Streams, options: dict[str, str]) -> bool:
    """Whether the connector's client for a source with these options is answered in time."""
    jvm: Any = streams.spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def call_static(name: str, method: str, type_name: str, argument: object) -> Any:
        """Py4J does not find the classes of jars that a session adds."""
        gateway: Any = streams.spark.sparkContext._gateway
        types = gateway.new_array(jvm.java.lang.Class, 1)
        types[0] = loader.loadClass(type_name)
        arguments = gateway.new_array(jvm.java.lang.Object, 1)
        arguments[0] = argument
        return loader.loadClass(name).getMethod(method, types).invoke(None, arguments)

    given = jvm.java.util.HashMap(options)
    insensitive = "org.apache.spark.sql.util.CaseInsensitiveStringMap"
    parsed = call_static(
        "io.eoskafka.config.SourceOptions",
        "parse",
        insensitive,
        jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(given),
    )
    admin = call_static(
        "io.eoskafka.shaded.kafka.clients.admin.Admin",
        "create",
        "java.util.Map",
        parsed.client().admin("test"),
    )
    try:
        admin.listTopics().names().get(WAIT_S, jvm.java.util.concurrent.TimeUnit.SECONDS)
    except Py4JJavaError as error:
        if "TimeoutException" not in str(error.java_exception):
            raise
        return False
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(0))
    return True
