"""Compiles the few Java classes that tests bring along."""

from __future__ import annotations

import os
import subprocess
import zipfile
from importlib.util import find_spec
from pathlib import Path

from eoskafka import jar_path

_SOURCES = Path(__file__).parent / "java"


def class_path() -> str:
    """Spark's jars and the connector's."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    spark = Path(spec.submodule_search_locations[0]) / "jars" / "*"
    return os.pathsep.join([str(spark), os.environ.get("EOSKAFKA_JAR") or str(jar_path())])


def compile_to_jar(folder: Path) -> Path:
    """A jar of everything in `java/`, made in `folder`."""
    classes = folder / "classes"
    sources = [str(source) for source in _SOURCES.rglob("*.java")]
    subprocess.run(
        ["javac", "--release", "17", "-cp", class_path(), "-d", str(classes), *sources], check=True
    )
    jar = folder / "test-classes.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
    return jar
