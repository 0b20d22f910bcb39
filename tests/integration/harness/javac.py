"""Compiles the few Java classes that tests bring along."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from eoskafka import jar_path

_HERE = Path(__file__).parent


def class_path() -> str:
    """Spark's jars and the connector's."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    spark = Path(spec.submodule_search_locations[0]) / "jars" / "*"
    return os.pathsep.join([str(spark), os.environ.get("EOSKAFKA_JAR") or str(jar_path())])


def compile_to_jar(folder: Path, sources: str = "java", against: Sequence[Path] = ()) -> Path:
    """A jar of all Java files in a folder beside this file, made in `folder`.

    Args:
        sources: the folder's name.
        against: the jars to compile against; none for Spark's and the connector's.
    """
    classes = folder / "classes"
    files = [str(source) for source in (_HERE / sources).rglob("*.java")]
    path = os.pathsep.join(map(str, against)) or class_path()
    subprocess.run(
        ["javac", "--release", "17", "-cp", path, "-d", str(classes), *files], check=True
    )
    jar = folder / "test-classes.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
    return jar
