"""This machine: Python, Java, Spark and the jar."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from eoskafka import _jar, jar_path, sparks
from eoskafka.doctor import connect
from eoskafka.doctor.model import Finding, Level, minor
from eoskafka.errors import JarError

_LEAST_JAVA = 17
_JAVA_TIMEOUT_S = 30


def machine() -> list[Finding]:
    """Python, Java, Spark and the jar here; of a client of Spark Connect only what it uses."""
    client = _version_of("pyspark-client")
    if client is not None and _version_of("pyspark") is None:
        return [_python(), *connect.client(client)]
    return [_python(), _java(), *_spark_and_jar(), _workers()]


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


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
            f"pyspark {spark}, but the jar supports only {sparks.supported()}",
            f"pip install 'pyspark=={newest}.*', or install a version of eoskafka that supports "
            f"Spark {minor(spark)}",
        )
        return
    yield Finding("Spark", Level.FINE, f"pyspark {spark}")
    if sparks.line(spark) > sparks.AVRO_NEWEST and _has_registry_client():
        yield Finding(
            "schemas",
            Level.NOTE,
            f"eoskafka.schemas does not run on Spark {minor(spark)}",
            f"if a query uses schemas: pip install 'pyspark=={sparks.AVRO_RELEASE}'",
        )
    scala = _scala()
    if scala is None:
        yield Finding("Scala", Level.UNKNOWN, "Spark's jars were not found")
    elif minor(scala) != built["scala"]:
        yield Finding(
            "Scala",
            Level.PROBLEM,
            f"{scala}, but the jar was built for {built['scala']}",
            f"use the build of Spark for Scala {built['scala']}",
        )
    else:
        yield Finding("Scala", Level.FINE, scala)


def _has_registry_client() -> bool:
    """Whether the extra `schemas` is installed."""
    try:
        import confluent_kafka.schema_registry  # noqa: F401
    except ImportError:
        return False
    return True


def _scala() -> str | None:
    spark_home = os.environ.get("SPARK_HOME")
    if spark_home:
        jars = Path(spark_home) / "jars"
    else:
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars"
    found = sorted(jars.glob("scala-library-*.jar"))
    return found[0].stem.removeprefix("scala-library-") if found else None


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
            f"PYSPARK_PYTHON is not set, so they use {python3}, but the driver's Python is "
            f"{sys.executable}",
            f"export PYSPARK_PYTHON={sys.executable}, or UDFs may lack packages",
        )
    return Finding("Python workers", Level.FINE, f"PYSPARK_PYTHON={given}")
