"""Whether this machine, its Spark and a cluster fit each other and the connector.

Looks only. What an answer needs and is not there (an extra that is not installed, a right that the
user lacks) is said, never taken for well.
"""

from __future__ import annotations

import enum
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import IncompatibleBrokerVersion

from eoskafka import _connect, _jar, jar_path, properties, sparks
from eoskafka.errors import ConfigurationError, JarError
from eoskafka.groups import Connection, nodes
from eoskafka.upgrade import brokers

_LEAST_JAVA = 17
_JAVA_TIMEOUT_S = 30
# Of a task's transaction, unless `kafka.transaction.timeout.ms` says otherwise.
_TASK_TIMEOUT_MS = 300_000
_DAY_MS = 86_400_000
# Settings of the brokers, and what is not known without them.
_HIDDEN = {
    "transaction.max.timeout.ms": (
        "how long a transaction may be open: epoch scope asks for kafka.transaction.timeout.ms, or "
        "15 minutes, and the brokers refuse what is too long"
    ),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "when the brokers abort a transaction that has timed out: epoch scope keeps 60 s for it"
    ),
    "offsets.retention.minutes": (
        "how long a query may be down before its offsets are deleted, which stops it with an error"
    ),
    "transaction.state.log.replication.factor": (
        "whether transactions outlive the loss of a broker"
    ),
    "offsets.topic.replication.factor": "whether offsets outlive the loss of a broker",
}


class Level(str, enum.Enum):
    """What a finding means."""

    FINE = "fine"
    NOTE = "note"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        about: what was.
        level: `NOTE` if it works and could be better, `PROBLEM` if the connector does not work so.
        found: what there is.
        advice: what to do; empty where nothing is.
    """

    about: str
    level: Level
    found: str
    advice: str = ""


def machine() -> list[Finding]:
    """Python, Java, Spark and the jar here; of a client of Spark Connect only what it uses."""
    client = _version_of("pyspark-client")
    if client is not None and _version_of("pyspark") is None:
        return [_python(), *_connect_client(client)]
    return [_python(), _java(), *_spark_and_jar(), _workers()]


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
            # Its own go on for ten minutes.
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


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _connect_client(spark: str) -> Iterator[Finding]:
    """Java, the jar and Scala are the server's."""
    if not sparks.is_supported(spark):
        yield Finding(
            "Spark Connect",
            Level.PROBLEM,
            f"pyspark-client {spark}, and the connector runs on {sparks.supported()}",
            f"pip install an eoskafka that knows {_minor(spark)}",
        )
        return
    yield Finding(
        "Spark Connect",
        Level.FINE,
        f"pyspark-client {spark}: Java, Spark's jars and the connector's jar are the server's",
        "eoskafka doctor --remote sc://HOST:15002 asks a server for the connector",
    )


def _python() -> Finding:
    return Finding("Python", Level.FINE, platform.python_version())


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install a JDK {_LEAST_JAVA}, and set JAVA_HOME to its folder or put java on the PATH"
    if command is None:
        return Finding(
            "Java", Level.PROBLEM, "there is no java on the PATH, and JAVA_HOME is not set", advice
        )
    try:
        done = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=_JAVA_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", Level.PROBLEM, f"{command} does not run: {error}", advice)
    # "17.0.9", and "1.8.0_392" before Java 9.
    version = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', done.stderr)
    if version is None:
        return Finding("Java", Level.UNKNOWN, f"{command} does not say its version", advice)
    text = f"{version[1]}{version[2]} ({command})"
    if int(version[1]) < _LEAST_JAVA:
        return Finding("Java", Level.PROBLEM, f"{text}; eoskafka needs {_LEAST_JAVA}", advice)
    return Finding("Java", Level.FINE, text)


def _spark_and_jar() -> Iterator[Finding]:
    try:
        jar = jar_path()
    except JarError as error:
        yield Finding("jar", Level.PROBLEM, str(error))
        return
    built = _jar.build_properties(jar)
    yield Finding(
        "jar",
        Level.FINE,
        f"{jar.name} for Spark {sparks.supported()} and Scala {built['scala']}, with Kafka's "
        f"client {built['kafka']}",
    )
    try:
        spark = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        yield Finding(
            "Spark",
            Level.UNKNOWN,
            "pyspark is not installed here",
            f"a cluster brings its own, which must be {sparks.supported()}; on this machine: "
            "pip install 'eoskafka[local]'",
        )
        return
    if not sparks.is_supported(spark):
        newest = sparks.text(sparks.NEWEST)
        yield Finding(
            "Spark",
            Level.PROBLEM,
            f"pyspark {spark}, and the jar runs on {sparks.supported()}",
            f"pip install 'pyspark=={newest}.*', or an eoskafka that knows {_minor(spark)}",
        )
        return
    yield Finding("Spark", Level.FINE, f"pyspark {spark}")
    scala = _scala()
    if scala is None:
        yield Finding("Scala", Level.UNKNOWN, "Spark's jars are not beside pyspark")
    elif _minor(scala) != built["scala"]:
        yield Finding(
            "Scala",
            Level.PROBLEM,
            f"{scala}, and the jar is for {built['scala']}",
            f"take the Spark that is built for Scala {built['scala']}",
        )
    else:
        yield Finding("Scala", Level.FINE, scala)


def _scala() -> str | None:
    spark_home = os.environ.get("SPARK_HOME")
    if spark_home:
        jars = Path(spark_home) / "jars"
    else:
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars"
    found = sorted(jars.glob("scala-library-*.jar"))
    return found[0].stem.removeprefix("scala-library-") if found else None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _workers() -> Finding:
    """Python workers are other processes, with `PYSPARK_PYTHON`'s packages."""
    given = os.environ.get("PYSPARK_PYTHON")
    if given is None:
        python3 = shutil.which("python3")
        if python3 is not None and Path(python3).resolve() == Path(sys.executable).resolve():
            return Finding("Python workers", Level.FINE, f"{python3}, as the driver's")
        return Finding(
            "Python workers",
            Level.NOTE,
            f"PYSPARK_PYTHON is not set, so they are {python3}, and the driver's Python is "
            f"{sys.executable}",
            f"export PYSPARK_PYTHON={sys.executable}, or UDFs may lack packages",
        )
    return Finding("Python workers", Level.FINE, f"PYSPARK_PYTHON={given}")


def cluster(
    bootstrap_servers: str,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    group: str = "",
    decision_topic: str = "__eoskafka_decisions",
    client: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """A cluster's brokers, features and limits, and this user's rights.

    Args:
        bootstrap_servers: `host:port,...`.
        inputs: topics that the query reads.
        outputs: topics that it writes to.
        group: its `kafka.group.id`.
        decision_topic: its `decisionTopic`.
        client: further settings of kafka-python's admin client.

    Raises:
        UnreachableError: the brokers do not answer.
    """
    at = Connection(bootstrap_servers, client or {})
    with at.looking_at("the cluster"):
        return [
            *_brokers(at),
            *_features(at),
            *_limits(at),
            _decisions(at, decision_topic),
            *_rights(at, inputs, outputs, group),
            *_consumers(outputs),
        ]


def _consumers(outputs: Sequence[str]) -> Iterator[Finding]:
    """Brokers do not know what a consumer has set, so this can only be said."""
    for topic in outputs:
        yield Finding(
            f"consumers of {topic}",
            Level.NOTE,
            "exactly once only if they set isolation.level=read_committed",
            "Kafka's default, read_uncommitted, also returns the records of aborted transactions; "
            "docs/consumers.md has the setting of each client",
        )


def _brokers(at: Connection) -> Iterator[Finding]:
    for broker in brokers(at):
        about = f"broker {broker.id} ({broker.address})"
        if not broker.release:
            yield Finding(
                about, Level.PROBLEM, "does not answer", "start it, or check its advertised address"
            )
        elif broker.lacks:
            yield Finding(
                about,
                Level.PROBLEM,
                f"Kafka {broker.release}: it {'; it '.join(broker.lacks)}",
                "upgrade it to Kafka 3.0 or newer; of a service that is compatible with Kafka, ask "
                "the operator for these requests",
            )
        else:
            yield Finding(about, Level.FINE, f"Kafka {broker.release} or newer")


def _features(at: Connection) -> Iterator[Finding]:
    with at.admin() as admin:
        found = admin.describe_features().get("transaction.version", {})
    supported, level = (found.get(what, (0, 0))[1] for what in ("supported", "finalized"))
    if supported < 2:
        yield Finding(
            "transaction.version",
            Level.NOTE,
            "these brokers have no version 2 (KIP-890, Kafka 4.0)",
            "on older brokers, a record of a transaction that has timed out can hang: "
            "`eoskafka txn find-hanging` lists them",
        )
    elif level < 2:
        yield Finding(
            "transaction.version",
            Level.NOTE,
            f"{level}, and these brokers have 2 (KIP-890)",
            "once all are upgraded: kafka-features.sh --bootstrap-server ... upgrade --feature "
            "transaction.version=2",
        )
    else:
        yield Finding("transaction.version", Level.FINE, str(level))


def _limits(at: Connection) -> Iterator[Finding]:
    with at.admin() as admin:
        present = nodes(admin)
        settings = _settings(admin, ConfigResourceType.BROKER, str(present[0]["broker_id"]))
    for setting, unknown in _HIDDEN.items():
        if setting not in settings:
            yield Finding(
                setting,
                Level.UNKNOWN,
                f"not shown to this user, so it is not known {unknown}",
                "grant DescribeConfigs on the cluster, or ask who operates it",
            )
    if "transaction.max.timeout.ms" in settings:
        yield _longest(int(settings["transaction.max.timeout.ms"]))
    if "offsets.retention.minutes" in settings:
        yield _kept(int(settings["offsets.retention.minutes"]) * 60_000)
    for log in ("transaction.state.log", "offsets.topic"):
        setting = f"{log}.replication.factor"
        if setting in settings:
            yield _copies(setting, int(settings[setting]), len(present))


def _longest(longest: int) -> Finding:
    about = "transaction.max.timeout.ms"
    if longest < _TASK_TIMEOUT_MS:
        return Finding(
            about,
            Level.PROBLEM,
            f"{longest:,} ms, but a task's transaction asks for {_TASK_TIMEOUT_MS:,}",
            f"raise it, or give the sink kafka.transaction.timeout.ms={longest}",
        )
    return Finding(
        about,
        Level.FINE,
        f"{longest:,} ms: a batch in epoch scope must end within it, and a task in task scope "
        f"within {_TASK_TIMEOUT_MS:,}",
    )


def _kept(kept_ms: int) -> Finding:
    is_long = kept_ms >= 7 * _DAY_MS
    return Finding(
        "offsets.retention.minutes",
        Level.FINE if is_long else Level.NOTE,
        f"{kept_ms / _DAY_MS:g} days: a query that is down for longer loses its offsets, and stops "
        "with an error",
        ""
        if is_long
        else "raise it to the longest time that a query may be down, weekends included",
    )


def _copies(setting: str, copies: int, brokers_there: int) -> Finding:
    wanted = min(3, brokers_there)
    if copies < wanted:
        return Finding(
            setting,
            Level.NOTE,
            f"{copies}, on {brokers_there} brokers",
            f"with {wanted}, no transaction or offset is lost with a broker",
        )
    return Finding(setting, Level.FINE, str(copies))


def _settings(admin: Any, kind: ConfigResourceType, name: str) -> dict[str, str]:
    """Empty where the brokers do not show them: this client does not raise a right that lacks."""
    resource = ConfigResource(kind, name)
    try:
        found = admin.describe_configs([resource], config_filter="all")
    except IncompatibleBrokerVersion:
        return {}
    shown = found[kind.name.lower()][name]
    return {setting: each["value"] for setting, each in shown.items() if each["value"] is not None}


def _decisions(at: Connection, topic: str) -> Finding:
    about = f"decision topic {topic}"
    with at.admin() as admin:
        if topic not in admin.list_topics():
            return Finding(
                about, Level.FINE, "it does not exist; the first query in epoch scope creates it"
            )
        settings = _settings(admin, ConfigResourceType.TOPIC, topic)
    if not settings:
        return Finding(
            about,
            Level.UNKNOWN,
            "its settings are not shown to this user",
            "grant DescribeConfigs on it",
        )
    wrong = [
        f"{name}={settings.get(name, 'not shown')}"
        for name, right in (
            ("cleanup.policy", "compact"),
            ("unclean.leader.election.enable", "false"),
        )
        if settings.get(name) != right
    ]
    return Finding(
        about,
        Level.PROBLEM if wrong else Level.FINE,
        ", ".join(wrong) or "compacted, without unclean elections",
        "set cleanup.policy=compact and unclean.leader.election.enable=false on it"
        if wrong
        else "",
    )


def _rights(
    at: Connection, inputs: Sequence[str], outputs: Sequence[str], group: str
) -> Iterator[Finding]:
    if not (inputs or outputs or group):
        yield Finding("rights", Level.UNKNOWN, "not checked", "give --input, --output and --group")
        return
    try:
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient
    except ImportError:
        yield Finding("rights", Level.UNKNOWN, "not checked", "pip install 'eoskafka[verify]'")
        return
    admin = AdminClient({"bootstrap.servers": at.servers, **properties.of_librdkafka(at.settings)})
    wanted = [(topic, "Read") for topic in inputs] + [(topic, "Write") for topic in outputs]
    for topic, right in wanted:
        answers = admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True
        )
        yield _right(f"topic {topic}", answers[topic], right)
    if group:
        answers = admin.describe_consumer_groups([group], include_authorized_operations=True)
        yield _right(f"group {group}", answers[group], "Read")
    yield Finding(
        "transactional ids",
        Level.UNKNOWN,
        "brokers do not report who may use them",
        "grant Write and Describe on ids with the sink's transactionalIdPrefix",
    )


def _right(about: str, answer: Any, right: str) -> Finding:
    """Whether an answer of librdkafka's admin client has a right among the user's."""
    from confluent_kafka import KafkaException

    try:
        allowed = [each.name for each in answer.result().authorized_operations]
    except KafkaException as error:
        return Finding(
            about,
            Level.PROBLEM,
            f"it does not exist, or this user may not see it: {error.args[0].str()}",
            "create it, or grant Describe on it",
        )
    if right.upper() in allowed:
        return Finding(about, Level.FINE, f"this user has {right}")
    return Finding(about, Level.PROBLEM, f"this user lacks {right}", f"grant {right} on it")
