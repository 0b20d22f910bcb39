"""`eoskafka doctor` on real brokers."""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest
from eoskafka import UnreachableError, doctor
from eoskafka.cluster import LocalCluster
from eoskafka.doctor import Level
from kafka.admin import KafkaAdminClient, NewTopic


def test_a_cluster_is_looked_at(cluster: LocalCluster) -> None:
    bad = f"decisions-{uuid.uuid4().hex}"
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(bad, 1, 1, topic_configs={"cleanup.policy": "delete"})])
    found = {each.about: each for each in doctor.cluster(cluster.bootstrap_servers)}
    assert found["transaction.version"].level is Level.FINE
    assert found["transaction.max.timeout.ms"].found.startswith("900,000 ms")
    assert found["transaction.state.log.replication.factor"].level is Level.FINE
    assert [each.level for name, each in found.items() if name.startswith("broker ")] == [
        Level.FINE
    ]
    assert found["rights"].advice == "give --input, --output and --group"
    found = {
        each.about: each
        for each in doctor.cluster(
            cluster.bootstrap_servers, inputs=["nowhere"], group="nobody", decision_topic=bad
        )
    }
    unfit = found[f"decision topic {bad}"]
    assert unfit.level is Level.PROBLEM
    assert unfit.found == "cleanup.policy=delete"
    assert found["topic nowhere"].level is Level.PROBLEM
    assert "Unknown topic" in found["topic nowhere"].found
    assert found["group nobody"].level is Level.FINE


def test_brokers_that_are_not_there_are_named() -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        doctor.cluster("127.0.0.1:1")
