"""Through a real server of Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from eoskafka.audit import read_committed
from harness import Flow
from harness.connect import client, connect_server
from kafka.admin import NewTopic

RECORDS = 60


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


def spec(flow: Flow) -> dict[str, object]:
    return {
        "source": {
            "kafka.bootstrap.servers": flow.servers,
            "subscribe": flow.input,
            "kafka.group.id": flow.group,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "20",
        },
        "sink": {"kafka.bootstrap.servers": flow.servers, "topic": flow.output},
        "checkpoint": str(flow.checkpoint),
    }


@pytest.mark.parametrize(
    "how", ["foreach-batch", pytest.param("foreach-batch-sql", marks=pytest.mark.slow)]
)
def test_a_write_of_foreach_batch_is_refused(url: str, flow: Flow, how: str) -> None:
    flow.produce(RECORDS)
    error = client(url, how, **spec(flow))["error"]
    assert "[EOSKAFKA_WRITE_THROUGH_CONNECT]" in error, error
    assert flow.outputs() == []
    flow.assert_nothing_is_open()


def test_a_batch_job_beside_a_query_is_accepted(url: str, flow: Flow) -> None:
    flow.produce(RECORDS)
    side = f"{flow.name}-side"
    with flow.admin() as admin:
        admin.create_topics([NewTopic(side, 2, 1)])
        admin.wait_for_topics([side])
    job = {"kafka.bootstrap.servers": flow.servers, "topic": side}
    assert client(url, "stream-and-job", job=job, rows=20, **spec(flow))["error"] == ""
    assert sorted(r.value or b"" for r in flow.outputs()) == sorted(
        r.value or b"" for r in flow.inputs()
    )
    written = [r.value for r in read_committed(flow.servers, side)]
    assert sorted(int(value or b"") for value in written) == [*range(20)]
