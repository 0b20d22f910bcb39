"""The numbers of a session's queries for OpenTelemetry, and a span for each batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from eoskafka import __version__
from eoskafka.errors import ConfigurationError
from eoskafka.metrics.board import OF_SINK, Board, hear_the_rest, seconds
from eoskafka.reports.measures import MEASURES, PREFIX, Measure

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import TracerProvider

# How OpenTelemetry abbreviates units.
_UNITS = {"seconds": "s", "": ""}
_NS = 1_000_000_000
_MS_NS = 1_000_000


class _Instruments:
    """The instruments of one meter provider.

    OpenTelemetry keeps one instrument for each name and has no way to take a callback back, so all
    instrumentations of a provider share these.
    """

    def __init__(self, provider: MeterProvider) -> None:
        from opentelemetry import metrics

        self.boards: list[Board] = []
        self._observation = metrics.Observation
        meter = metrics.get_meter(PREFIX, __version__, provider)
        for measure in MEASURES:
            create: Callable[..., object] = (
                meter.create_observable_counter
                if measure.is_counter
                else meter.create_observable_gauge
            )
            create(
                f"{PREFIX}.{measure.name}",
                callbacks=[self._callback(measure)],
                unit=_UNITS[measure.unit],
                description=measure.text,
            )

    def _callback(self, measure: Measure) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for board in [*self.boards]:
                for query in board.queries():
                    for labels, number in measure.labelled(query):
                        yield self._observation(number, labels)

        return observe


_INSTRUMENTS: WeakKeyDictionary[Any, _Instruments] = WeakKeyDictionary()
_LOCK = threading.Lock()


def _instruments_of(provider: MeterProvider) -> _Instruments:
    with _LOCK:
        if provider not in _INSTRUMENTS:
            _INSTRUMENTS[provider] = _Instruments(provider)
        return _INSTRUMENTS[provider]


class Instrumentation:
    """Gives a session's numbers to OpenTelemetry until it is closed."""

    def __init__(
        self,
        spark: SparkSession,
        meter_provider: MeterProvider | None,
        tracer_provider: TracerProvider | None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise ConfigurationError(
                "opentelemetry-api is not installed, and the instrumentation needs it: pip install "
                "'eoskafka[opentelemetry]'"
            ) from error
        self._meters = meter_provider or metrics.get_meter_provider()
        self._tracers = tracer_provider or trace.get_tracer_provider()
        self._board = Board()
        self._spans = _Spans(trace.get_tracer(PREFIX, __version__, self._tracers))
        self._boards = _instruments_of(self._meters).boards
        self._boards.append(self._board)
        self._spark = spark
        spark.streams.addListener(self._board)
        spark.streams.addListener(self._spans)

    def close(self) -> None:
        """Let the providers export what was reported until now, and stop listening."""
        if self._board not in self._boards:
            return
        hear_the_rest(self._spark, self._board)
        for provider in (self._meters, self._tracers):
            # The SDK's providers have it, and the interface does not.
            if flush := getattr(provider, "force_flush", None):
                flush()
        self._boards.remove(self._board)
        # Fails if Spark's JVM is gone.
        with suppress(Exception):
            self._spark.streams.removeListener(self._spans)
            self._spark.streams.removeListener(self._board)

    def __enter__(self) -> Instrumentation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def instrument(
    spark: SparkSession,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Instrumentation:
    """Give the numbers of a session's queries, and a span for each batch, to OpenTelemetry.

    Args:
        spark: the session whose queries are reported: those that run, and those that start later.
        meter_provider: from OpenTelemetry's SDK, with the exporter of your choice; by default the
            global one.
        tracer_provider: the same for spans.

    Raises:
        ConfigurationError: opentelemetry-api is missing.
    """
    return Instrumentation(spark, meter_provider, tracer_provider)


class _Spans(StreamingQueryListener):
    """One span for each batch that had rows, made when its report comes.

    A report has the duration of each part of a batch but not its beginning, so the parts are
    attributes and not spans of their own.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's names)
        """No batch yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """No batch."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """A batch that fails has no report."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch has ended."""
        progress = event.progress
        if progress.numInputRows == 0:
            return
        metrics = progress.sink.metrics or {}
        attributes: dict[str, Any] = {
            f"{PREFIX}.query": progress.name or str(progress.id),
            f"{PREFIX}.batch_id": progress.batchId,
            f"{PREFIX}.rows": progress.numInputRows,
        }
        for part, ms in progress.durationMs.items():
            attributes[f"{PREFIX}.duration_ms.{part}"] = ms
        for theirs, ours in OF_SINK.items():
            if theirs in metrics:
                attributes[f"{PREFIX}.{ours}"] = int(metrics[theirs])
        if "transactionScope" in metrics:
            attributes[f"{PREFIX}.transaction_scope"] = metrics["transactionScope"]
        began = round(seconds(progress.timestamp) * _NS)
        span = self._tracer.start_span("micro-batch", start_time=began, attributes=attributes)
        span.end(began + progress.durationMs.get("triggerExecution", 0) * _MS_NS)
