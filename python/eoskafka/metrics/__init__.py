"""What running queries report, for Prometheus, OpenTelemetry and code, and live in a terminal.

`export` serves it to Prometheus (`conf/prometheus-alerts.yml` and `conf/grafana-dashboard.json` go
with it), `instrument` gives it to OpenTelemetry, and `live` shows it. All of them listen to Spark's
progress reports: they cost nothing per record, and prove nothing (`eoskafka verify` does).
"""

from eoskafka.metrics.board import Board
from eoskafka.metrics.prometheus import Exporter, export
from eoskafka.metrics.telemetry import Instrumentation, instrument
from eoskafka.metrics.terminal import live
from eoskafka.reports.model import Query

__all__ = ["Board", "Exporter", "Instrumentation", "Query", "export", "instrument", "live"]
