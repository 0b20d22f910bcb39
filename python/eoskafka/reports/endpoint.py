"""Reads back what an exporter serves to Prometheus."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

from eoskafka.errors import ConfigurationError, UnreachableError
from eoskafka.reports.measures import MEASURES
from eoskafka.reports.model import Query

HOST, PORT = "127.0.0.1", 9095
_BY_SERIES = {measure.series: measure for measure in MEASURES}
_ACTIVE = "eoskafka_query_active"


def read(endpoint: str, timeout_s: float = 5.0) -> list[Query]:
    """What an exporter serves.

    Args:
        endpoint: `host:port`, or the URL of the page.
        timeout_s: for each wait for an answer.

    Returns:
        the queries by name, without `scope`; `waits_s` has one entry.

    Raises:
        ConfigurationError: `endpoint` is no such address, the page is not an exporter's, or
            prometheus_client is missing.
        UnreachableError: nobody answers.
    """
    url = page(endpoint)
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310
            content: bytes = answer.read()
    except urllib.error.HTTPError as error:
        raise ConfigurationError(
            f"{url} answers with HTTP status {error.code}; is this the page of an exporter?"
        ) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UnreachableError(f"{url} does not answer: {reason}") from error
    return _queries(url, content)


def page(endpoint: str) -> str:
    """The URL of an exporter's page; ConfigurationError if `endpoint` names none."""
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and not re.search(r"[\s\x00-\x1f]", url)
        # Raises UnicodeError, which is a ValueError, for a name that cannot be one of a host.
        is_url = is_url and bool((parts.hostname or "").encode("idna"))
        _ = parts.port
    except ValueError:
        is_url = False
    if not is_url:
        raise ConfigurationError(f"'{endpoint}' is neither host:port nor a URL of http or https")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/metrics"


def _queries(url: str, content: bytes) -> list[Query]:
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise ConfigurationError(
            "prometheus_client is not installed, and reading its page needs it: pip install "
            "'eoskafka[metrics]'"
        ) from error
    queries: dict[str, Query] = {}
    try:
        families = list(text_string_to_metric_families(content.decode()))
        for sample in (sample for family in families for sample in family.samples):
            measure = _BY_SERIES.get(sample.name)
            name = sample.labels.get("query")
            if measure is not None and name is not None:
                query = queries.setdefault(name, Query(name))
                measure.put(query, sample.labels.get(measure.label, ""), sample.value)
    except Exception as error:
        # The parser raises whatever a page that it does not expect makes of it.
        raise ConfigurationError(f"{url} is not the page of an exporter: {error}") from error
    if not any(family.name == _ACTIVE for family in families):
        raise ConfigurationError(f"{url} has no metrics of eoskafka")
    return sorted(queries.values(), key=lambda query: query.name)
