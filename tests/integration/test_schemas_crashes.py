"""Orders in Avro whose schema changes on the way, while executors and drivers are killed.

fastavro makes the orders, and reads the totals that a read_committed reader finds.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.audit import read_committed
from harness import Application, Flow, Point, StartApplication
from harness.registry import RegistryServer
from harness.schemas import avro_jar, framed, unframed
from harness.transforms import REGISTRY, TOPICS
from harness.versions import needs_avro
from kafka import KafkaProducer
from kafka.admin import NewTopic

pytestmark = [needs_avro, pytest.mark.slow]

V1 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "count", "type": "int", "default": 1},
    ],
}
# In another order, and without a field: read with the first one, a record would be another one.
V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "by", "type": "string", "default": ""},
        {"name": "price", "type": "double"},
        {"name": "id", "type": "long"},
    ],
}
TOTAL = {
    "type": "record",
    "name": "Total",
    "fields": [{"name": "id", "type": "long"}, {"name": "total", "type": "double"}],
}
AT_ONCE = 400
PER_BATCH = 200
OF_TASKS: list[Point] = ["before-flush", "after-flush", "after-offsets", "after-commit"]


class Orders:
    """What was sent, and what has to come of it."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.totals: dict[int, float] = {}
        self.wrong: list[bytes] = []

    def send(self, ident: int, schema: Any, count: int = AT_ONCE) -> None:
        """So many orders more; every hundredth value is cut short."""
        has_count = any(field["name"] == "count" for field in schema["fields"])
        with closing(KafkaProducer(bootstrap_servers=self.flow.servers, linger_ms=5)) as producer:
            for number in range(self.flow.produced, self.flow.produced + count):
                order = {"id": number, "price": number / 2, "count": 3, "by": "someone"}
                value = framed(ident, schema, order)
                if number % 100 == 0:
                    value = value[:7] + bytes([number // 100])
                    self.wrong.append(value)
                else:
                    self.totals[number] = number / 2 * (3 if has_count else 1)
                producer.send(self.flow.input, value=value, partition=number % 2)
        self.flow.produced += count

    def assert_once(self, ident: int, dead: str) -> None:
        """Each one is a total or a dead letter, once."""
        self.flow.assert_nothing_is_open()
        found = [unframed(ident, TOTAL, record.value) for record in self.flow.outputs()]
        assert sorted((each["id"], each["total"]) for each in found) == sorted(self.totals.items())
        letters = [record.value or b"" for record in read_committed(self.flow.servers, dead)]
        assert sorted(letters) == sorted(self.wrong)
        assert self.flow.committed() == self.flow.ends()


@pytest.mark.timeout(900)
def test_a_schema_that_changes_loses_and_duplicates_nothing_whoever_dies(
    flow: Flow, start_application: StartApplication, tmp_path: Path
) -> None:
    dead = f"{flow.name}-dead"
    with flow.admin() as admin:
        admin.create_topics([NewTopic(dead, 2, 1)])
    orders = Orders(flow)
    how: dict[str, Any] = {
        "transform": "orders",
        "sink": {"topic": ""},
        "maxOffsetsPerTrigger": PER_BATCH,
    }

    def kill_executors(spark: Application, ident: int, schema: Any) -> None:
        for point in OF_TASKS:
            spark.faults.arm(point, "kill")
            orders.send(ident, schema)
            spark.faults.wait_taken(point)

    with RegistryServer().running() as registry:
        first, total = registry.add("orders", V1), registry.add("totals", TOTAL)

        def application() -> Application:
            return start_application(
                "local-cluster[2,1,1024]",
                {
                    TOPICS: f"{flow.output},{dead}",
                    REGISTRY: f"{registry.url},{tmp_path / 'orders.schema'}",
                    "spark.jars": str(avro_jar()),
                },
            )

        spark = application()
        query = flow.start(spark, **how, interval="0 seconds")
        kill_executors(spark, first, V1)
        second = registry.add("orders", V2)
        orders.send(second, V2)
        error = query.wait_end().error
        assert error is not None
        assert f"[EOSKAFKA_UNKNOWN_SCHEMA_ID] A record has the schema id {second}." in error
        spark.kill()

        # The restart knows it; the reader's schema stays the first one.
        spark = application()
        flow.start(spark, **how, interval="0 seconds")
        kill_executors(spark, second, V2)
        orders.send(first, V1)
        spark.kill()
        flow.start(application(), **how).wait_done()
        orders.assert_once(total, dead)
