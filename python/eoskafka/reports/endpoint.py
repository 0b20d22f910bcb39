"""Reads back what an exporter serves to Prometheus."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from eoskafka.errors import ConfigurationError, UnreachableError
from eoskafka.reports.measures import MEASURES, PREFIX
from eoskafka.reports.model import Query

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_TOTALS = [measure.name for measure in MEASURES if measure.is_counter and not measure.unit]


def read(endpoint: str, timeout_s: float = 5.0) -> list[Query]:
    """What an exporter serves.

    Args:
        endpoint: `host:port`, or the URL of the page.
        timeout_s: for each wait for an answer.

    Returns:
        the queries by name, without the reports of single runs: `waits_s` has one entry.

    Raises:
        ConfigurationError: `endpoint` is no such address, the page is not an exporter's, or
            prometheus_client is missing.
        UnreachableError: nobody answers.
    """
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise ConfigurationError(
            "prometheus_client is not installed, and reading its page needs it: pip install "
            "'eoskafka[metrics]'"
        ) from error
    url = page(endpoint)
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        raise ConfigurationError(f"{url} answers {error.code}: is it an exporter's?") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UnreachableError(f"{url} does not answer: {reason}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{url} is not the page of an exporter") from error
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise ConfigurationError(f"{url} is not the page of an exporter: {error}") from error
    if not any(family.name == f"{PREFIX}_query_active" for family in families):
        raise ConfigurationError(f"{url} has no metrics of eoskafka")
    return _queries(families)


def page(endpoint: str) -> str:
    """The URL of an exporter's page; ConfigurationError if `endpoint` names none."""
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_url = False
    if not is_url:
        raise ConfigurationError(f"'{endpoint}' is neither host:port nor a URL of http or https")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/metrics"


def _queries(families: list[Metric]) -> list[Query]:
    queries: dict[str, Query] = {}
    for sample in (sample for family in families for sample in family.samples):
        name = sample.name.removeprefix(f"{PREFIX}_")
        if name != sample.name and "query" in sample.labels:
            query = queries.setdefault(sample.labels["query"], Query(sample.labels["query"]))
            _take(query, name, sample.labels, sample.value)
    return sorted(queries.values(), key=lambda query: query.name)


def _take(query: Query, name: str, labels: dict[str, str], value: float) -> None:
    match name:
        case "query_active":
            query.is_active = value == 1
        case "query_failed":
            query.failure = labels.get("condition", "unknown")
        case "batch_id":
            query.batch = int(value)
        case "rows_per_second":
            query.rows_per_second = value
        case "input_rows_per_second":
            query.input_rows_per_second = value
        case "offsets_behind":
            query.behind[labels.get("source", "")] = value
        case "batch_duration_seconds":
            query.durations_s[labels.get("part", "")] = value
        case "commit_latency_seconds":
            query.commit_latency_s = value
        case "epoch_time_left_seconds":
            query.epoch_time_left_s = value
        case "last_report_timestamp_seconds":
            query.reported_s = value
        case "stable_offset_wait_seconds_total":
            query.waits_s["", 0] = value
        case _ if name.removesuffix("_total") in _TOTALS:
            query.totals[name.removesuffix("_total")] = int(value)
