"""Spark Connect: the client on this machine, and a server."""

from __future__ import annotations

import re
from collections.abc import Iterator

from eoskafka import _connect, sparks
from eoskafka.doctor.model import Finding, Level, minor
from eoskafka.errors import ConfigurationError


def client(spark: str) -> Iterator[Finding]:
    """Java, the jar and Scala are the server's."""
    if not sparks.is_supported(spark):
        yield Finding(
            "Spark Connect",
            Level.PROBLEM,
            f"pyspark-client {spark}, but the connector supports only {sparks.supported()}",
            f"install a version of eoskafka that supports Spark {minor(spark)}",
        )
        return
    yield Finding(
        "Spark Connect",
        Level.FINE,
        f"pyspark-client {spark}: Java, Spark's jars and the connector's jar are on the server",
        "eoskafka doctor --remote sc://HOST:15002 checks whether a server has the connector",
    )


def server(url: str) -> Finding:
    """Whether a server of Spark Connect has the connector.

    Args:
        url: such as `sc://host:15002`.
    """
    about = f"server {url}"
    advice = "pip install 'eoskafka[connect]'"
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        return Finding(about, Level.UNKNOWN, f"not checked: {error}", advice)
    try:
        session = SparkSession.builder.remote(url).create()
        try:
            # The client's default policies retry for ten minutes.
            session.client.set_retry_policies([])
            _connect.check(session)
            spark = session.version
        finally:
            session.stop()
    except ConfigurationError as error:
        return Finding(about, Level.PROBLEM, str(error))
    except PySparkException as error:
        details = re.search(r'details = "([^"]*)"', str(error))
        text = details[1] if details else str(error).strip().partition("\n")[0]
        return Finding(
            about, Level.PROBLEM, f"does not answer: {text}", "start it, or correct its address"
        )
    return Finding(about, Level.FINE, f"Spark {spark}, with the connector's jar and plugin")
