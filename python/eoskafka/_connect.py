"""Spark Connect sessions: the connector runs in the server, and this package in the client.

The jar and the plugin are settings of the server's JVM. A client cannot set them, so it checks
them: the plugin stores the connector's version in the server's configuration, where every session
can read it. Nothing here needs Java unless pyspark runs its own JVM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from eoskafka import _jar, _launcher
from eoskafka._version import __version__
from eoskafka.errors import ConfigurationError

PLUGIN_CLASS = "io.eoskafka.EosKafkaPlugin"
# As `EosKafkaPlugin` sets it when the server starts.
VERSION = "spark.eoskafka.version"

_CLIENT = "pyspark.sql.connect.session"


def server_url(options: Mapping[str, str]) -> str | None:
    """The URL of the server that a builder with these options names; None for a classic session.

    Raises:
        ConfigurationError: pyspark would start the server itself, or the options name no server.
    """
    given = {**_launcher.argument_settings(), **options}
    mode = given.get("spark.api.mode") or os.environ.get("SPARK_API_MODE") or ""
    remote = given.get("spark.remote") or os.environ.get("SPARK_REMOTE") or ""
    if remote.startswith("sc://"):
        return remote
    if remote or mode.lower() == "connect":
        # Its spark.plugins is then that of Connect, whatever the builder has.
        raise ConfigurationError(
            f"pyspark would start a server of Spark Connect in this process ({remote or mode}), "
            f"with its own list of plugins, which lacks {PLUGIN_CLASS}. {_how_to_start()} Then "
            'give the builder its address: SparkSession.builder.remote("sc://HOST:15002")'
        )
    if not has_classic():
        raise ConfigurationError(
            "this is pyspark-client, which needs a server of Spark Connect, and the builder names "
            'none: eoskafka.configure(SparkSession.builder.remote("sc://HOST:15002"))'
        )
    return None


def has_classic() -> bool:
    """Whether pyspark here can run a session of its own. pyspark-client, for one, cannot."""
    try:
        from pyspark.util import is_remote_only
    except ImportError:  # Spark 3.5
        return True
    return not is_remote_only()


def active_session() -> Any:
    """The client's session that a builder would return; None without one."""
    module = sys.modules.get(_CLIENT)
    if module is None:
        return None
    sessions = module.SparkSession
    # Spark 3.5 has no such methods; its clients ask with `eoskafka.check`.
    found = getattr(sessions, "getActiveSession", lambda: None)()
    return found or getattr(sessions, "_get_default_session", lambda: None)()


def is_session(spark: object) -> bool:
    """Whether it is a session of Spark Connect."""
    return any(each.__module__ == _CLIENT for each in type(spark).__mro__)


def check(spark: Any) -> None:
    """Raise ConfigurationError unless the server has this version's jar and its plugin.

    If the server does not answer, pyspark's own exception is raised.
    """
    found = spark.conf.get(VERSION, None)
    if found == __version__:
        return
    if found is not None:
        raise ConfigurationError(
            f"the server of Spark Connect has the connector's jar of version {found}, and this "
            f"package is {__version__}: install the package of that version, or start the server "
            "with the jar that `eoskafka jar-path` prints"
        )
    plugins = spark.conf.get("spark.plugins", "") or ""
    if _has_source(spark):
        raise ConfigurationError(
            "the server of Spark Connect was started without the connector's plugin, and only the "
            "session has the jar. Spark loads a plugin when it starts, so neither addArtifact nor "
            f"a setting of a session can add it. {_how_to_start(plugins)}"
        )
    raise ConfigurationError(
        "the server of Spark Connect has neither the connector's jar nor its plugin. "
        f"{_how_to_start(plugins)} A client cannot add them later."
    )


def _has_source(spark: Any) -> bool:
    """Whether the server finds the data source, which then says which option it lacks."""
    from pyspark.errors import PySparkException

    try:
        _ = spark.read.format("eoskafka").load().schema
    except PySparkException as error:
        return "[EOSKAFKA_" in str(error)
    return True


def _how_to_start(plugins: str = "") -> str:
    listed = ",".join([*filter(None, [plugins]), PLUGIN_CLASS])
    return (
        f"Start the server with --jars {_jar.jar_file()} --conf spark.plugins={listed}, after "
        "you have copied the jar to the server's machine."
    )
