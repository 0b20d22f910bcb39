"""The Spark session that tests share in their process, and settings of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import eoskafka
from eoskafka.bench.peers import peer_jars
from eoskafka.schemas.jar import with_limits
from eoskafka.session import PLUGIN_CLASS, REDACTED, REDACTION
from eoskafka.sparks import ASYNC_PROGRESS
from harness.archive import archive_options
from harness.log_ins import PLAIN_PASSWORD, VARIABLE
from harness.schemas import avro_jar
from harness.versions import HAS_BUILT_IN
from pyspark.sql import SparkSession

# Of Kafka's client, by Kafka's own name.
PROPERTY = "property.of.tests"

_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def start_session(folder: Path, cores: int = 2) -> SparkSession:
    """A session with this connector and Spark's own, whose INFO log goes to `folder`/spark.log."""
    os.environ[VARIABLE] = PLAIN_PASSWORD
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J.format(file=folder / "spark.log"), encoding="utf-8")
    builder = (
        # Two attempts of each task: in local mode Spark gives up after the first otherwise.
        SparkSession.builder.master(f"local[{cores},2]")
        .appName("eoskafka-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # Spark 4.3 has it on in real-time mode; no other version knows the setting.
        .config(ASYNC_PROGRESS, "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        # A test that deletes shuffle files loses Spark's only block manager. In local mode none can
        # be registered again, and by default the JVM ends ten minutes later.
        .config("spark.executor.heartbeat.maxFailures", "1000000")
        .config(
            "spark.driver.extraJavaOptions",
            with_limits(
                f"-Dlog4j2.configurationFile={log4j.as_uri()} {archive_options()} "
                "-XX:TieredStopAtLevel=1 "
                # This level's default is full after a few hundred queries; then nothing is
                # compiled.
                "-XX:ReservedCodeCacheSize=240m "
                f"-Dorg.apache.kafka.{PROPERTY}=given"
            ),
        )
    )
    # Spark's own connector and Avro functions: Maven Central has both or none for a Spark version.
    peers = ",".join(map(str, [*peer_jars(), avro_jar()])) if HAS_BUILT_IN else ""
    jar = os.environ.get("EOSKAFKA_JAR")
    if jar:
        builder = builder.config("spark.jars", f"{peers},{jar}".strip(","))
        builder = builder.config("spark.plugins", PLUGIN_CLASS)
        builder = builder.config(REDACTION, REDACTED)
    else:
        builder = eoskafka.configure(builder.config("spark.jars", peers) if peers else builder)
    return builder.getOrCreate()


# Spark runs plans operator by operator then, as it does with very wide rows.
NO_GENERATED_CODE = {"spark.sql.codegen.wholeStage": "false"}


@contextmanager
def settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Settings of the session inside the block; afterwards they are as before."""
    former = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, before in former.items():
            if before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, before)
