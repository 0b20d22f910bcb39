"""Brokers that lack a request, as Kafka's older ones and some that are compatible with it do.

A real broker stays behind a proxy that takes the request out of what the broker says it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka import doctor
from eoskafka.doctor import Level
from faults.cluster import FaultyCluster
from faults.proxy import Api, Proxy
from pyspark.sql import SparkSession
from streams import Streams, kv


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    with FaultyCluster(tmp_path_factory.mktemp("proxied"), brokers=1) as cluster:
        yield cluster


@pytest.fixture
def proxy(proxied: FaultyCluster) -> Iterator[Proxy]:
    """In front of the one broker."""
    (found,) = proxied.proxies.values()
    yield found
    found.mend()


@pytest.fixture
def behind(shared_spark: SparkSession, proxied: FaultyCluster, tmp_path: Path) -> Iterator[Streams]:
    """Queries that reach the broker through the proxy."""
    with closing(Streams(shared_spark, proxied.bootstrap_servers, tmp_path)) as streams:
        yield streams


@pytest.mark.parametrize(
    ("api", "request_name", "wanted"),
    [
        pytest.param(
            Api.INIT_PRODUCER_ID,
            "InitProducerId",
            "has no transactions",
            id="InitProducerId",
        ),
        pytest.param(
            Api.END_TXN,
            "EndTxn",
            "has no transactions",
            id="EndTxn",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Api.LIST_TRANSACTIONS,
            "ListTransactions",
            "cannot list open",
            id="ListTransactions",
        ),
        pytest.param(
            Api.DESCRIBE_TRANSACTIONS,
            "DescribeTransactions",
            "cannot say",
            id="DescribeTransactions",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Api.OFFSET_FETCH,
            "OffsetFetch",
            "does not wait",
            id="OffsetFetch",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_request_that_brokers_lack_is_named_before_anything_is_written(
    behind: Streams, proxy: Proxy, proxied: FaultyCluster, api: Api, request_name: str, wanted: str
) -> None:
    topic, output = behind.topic(records=4), behind.topic()
    writer = behind.sink(kv(behind.source(topic)), output)
    proxy.limit(api)
    error = behind.failure(writer)
    assert (
        f"[EOSKAFKA_BROKER_LACKS_REQUEST] The request {request_name} is not supported by broker 1 "
        in error
    )
    assert f"Without this request, a broker {wanted}" in error
    found = {each.about: each for each in doctor.cluster(proxied.bootstrap_servers)}
    (broker,) = [each for about, each in found.items() if about.startswith("broker 1 ")]
    assert broker.level is Level.PROBLEM
    assert f"({request_name} version" in broker.found
    proxy.mend()
    assert behind.ends(output) == {0: 0, 1: 0}
    behind.run(writer)
    assert behind.numbers(output) == [0, 1, 2, 3]


def test_offsets_that_are_not_stable_are_refused(behind: Streams, proxy: Proxy) -> None:
    topic, output = behind.topic(records=4), behind.topic()
    proxy.limit(Api.OFFSET_FETCH, 6)
    error = behind.failure(behind.sink(kv(behind.source(topic)), output))
    assert "[EOSKAFKA_BROKER_TOO_OLD]" in error
    assert "it does not wait for offsets in open transactions" in error
    proxy.mend()
    assert behind.ends(output) == {0: 0, 1: 0}


def test_settings_that_no_request_shows_stop_epoch_scope_alone(
    behind: Streams, proxy: Proxy, proxied: FaultyCluster
) -> None:
    topic, output = behind.topic(records=4), behind.topic()
    proxy.limit(Api.DESCRIBE_CONFIGS)
    options = {"transactionScope": "epoch"}
    error = behind.failure(behind.sink(kv(behind.source(topic)), output, options=options))
    assert "[EOSKAFKA_BROKER_LACKS_REQUEST] The request DescribeConfigs is not" in error
    assert "a broker cannot say whether __eoskafka_decisions" in error
    found = {each.about: each for each in doctor.cluster(proxied.bootstrap_servers)}
    assert found["transaction.max.timeout.ms"].level is Level.UNKNOWN
    behind.run(behind.sink(kv(behind.source(topic)), output))
    assert behind.numbers(output) == [0, 1, 2, 3]
