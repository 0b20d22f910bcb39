"""The numbers of a session's queries for Prometheus."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from eoskafka.errors import ConfigurationError
from eoskafka.metrics.board import Board, hear_the_rest
from eoskafka.reports.endpoint import HOST, PORT
from eoskafka.reports.measures import MEASURES

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Exporter:
    """Serves a session's numbers to Prometheus until it is closed."""

    def __init__(
        self, spark: SparkSession, board: Board, port: int, address: str, linger_s: float
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise ConfigurationError(
                "prometheus_client is not installed, and the export needs it: pip install "
                "'eoskafka[metrics]'"
            ) from error
        registry = CollectorRegistry()
        registry.register(Collector(board))
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            raise ConfigurationError(f"{address}:{port} cannot be served: {error}") from error
        self.port: int = self._server.server_port
        self._spark, self._board, self._linger_s = spark, board, linger_s
        spark.streams.addListener(board)
        if linger_s:
            # An error of a query ends most programs.
            atexit.register(self.close)

    def close(self) -> None:
        """Stop serving and listening. After a query has failed, this takes `linger_s`."""
        atexit.unregister(self.close)
        try:
            if self._linger_s:
                self._linger()
            # Fails if Spark's JVM is gone.
            with suppress(Exception):
                self._spark.streams.removeListener(self._board)
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _linger(self) -> None:
        hear_the_rest(self._spark, self._board)
        if any(query.failure for query in self._board.queries()):
            time.sleep(self._linger_s)

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def export(
    spark: SparkSession, port: int = PORT, address: str = HOST, *, linger_s: float = 0.0
) -> Exporter:
    """Serve the numbers of a session's queries on `http://address:port/metrics`.

    Args:
        spark: the session whose queries are served: those that run, and those that start later.
        port: 0 for any free one; the exporter says which.
        address: to listen on. By default only this machine can connect. Neither a log-in nor TLS
            protects the endpoint, so give another address only in a network that you trust.
        linger_s: for how many seconds the numbers are still served when the exporter is closed or
            the program ends after a query has failed. Prometheus learns of the failure only if it
            scrapes within this time, so give at least two of its scrape intervals.

    Raises:
        ConfigurationError: prometheus_client is missing, the port is taken, or `linger_s` is
            negative.
    """
    if linger_s < 0:
        raise ConfigurationError(f"linger_s must not be negative, and it is {linger_s}")
    return Exporter(spark, Board(), port, address, linger_s)


class Collector:
    """prometheus_client asks it whenever Prometheus asks."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        """Every measure of every query."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        queries = self._board.queries()
        for measure in MEASURES:
            family_of = CounterMetricFamily if measure.is_counter else GaugeMetricFamily
            labels = ["query", *filter(None, [measure.label])]
            family = family_of(measure.family, measure.text, labels=labels)
            for query in queries:
                for values, number in measure.labelled(query):
                    family.add_metric(list(values.values()), number)
            yield family
