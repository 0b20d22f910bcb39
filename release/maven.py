"""The Maven bundle: a folder that is a Maven repository, and the same as one zip file.

    io/eoskafka/eoskafka/VERSION/
        eoskafka-VERSION.jar           the connector, with its Kafka client under another name
        eoskafka-VERSION-thin.jar      the connector with kafka-clients under its own name
        eoskafka-VERSION-sources.jar
        eoskafka-VERSION-javadoc.jar
        eoskafka-VERSION.pom           without a parent and without dependencies

The pom has no dependencies because the jar holds the Kafka client and Spark is there already: with
any of them, `--packages` would download what must not be loaded.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from eoskafka import __version__
from eoskafka._jar import ensure_built, time_of_release

# Newer ones need a newer Maven than 3.8, which Linux distributions still have.
_SOURCES = "org.apache.maven.plugins:maven-source-plugin:3.3.1:jar-no-fork"
_JAVADOC = "org.apache.maven.plugins:maven-javadoc-plugin:3.11.2:jar"
# Maven Central wants the first two.
_CHECKSUMS = ("md5", "sha1", "sha256", "sha512")

_POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0"
         xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 http://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>io.eoskafka</groupId>
  <artifactId>eoskafka</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>eoskafka</name>
  <description>An exactly-once Kafka connector for Spark Structured Streaming</description>
  <licenses>
    <license>
      <name>Apache-2.0</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0.txt</url>
      <distribution>repo</distribution>
    </license>
  </licenses>
</project>
"""


FOLDER = "maven"


def bundle(root: Path, dist: Path) -> None:
    """Make the bundle in `dist`: the folder `maven` and the zip file of it."""
    jar, thin = ensure_built(), ensure_built(thin=True)
    _run_maven(root)
    target = root / "jvm-shim" / "connector" / "target"
    repository = dist / FOLDER
    folder = repository / "io" / "eoskafka" / "eoskafka" / __version__
    folder.mkdir(parents=True)
    name = f"eoskafka-{__version__}"
    shutil.copyfile(jar, folder / f"{name}.jar")
    shutil.copyfile(thin, folder / f"{name}-thin.jar")
    for kind in ("sources", "javadoc"):
        shutil.copyfile(target / f"{name}-{kind}.jar", folder / f"{name}-{kind}.jar")
    (folder / f"{name}.pom").write_text(_POM.format(version=__version__), encoding="utf-8")
    for file in sorted(folder.iterdir()):
        for algorithm in _CHECKSUMS:
            digest = hashlib.new(algorithm, file.read_bytes()).hexdigest()
            file.with_name(f"{file.name}.{algorithm}").write_text(digest, encoding="ascii")
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    for file in folder.iterdir():
        os.utime(file, (seconds, seconds))
    with zipfile.ZipFile(dist / f"{name}-maven.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.relative_to(repository))


def _run_maven(root: Path) -> None:
    command = [
        *("mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(root / "jvm-shim" / "pom.xml")),
        *("-pl", "connector", f"-Drevision={__version__}", "-Ddoclint=none", _SOURCES, _JAVADOC),
        f"-Dproject.build.outputTimestamp={time_of_release()}",
    ]
    subprocess.run(command, stdout=sys.stderr, check=True)
