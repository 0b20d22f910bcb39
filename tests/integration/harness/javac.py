"""Compiles the few Java classes that tests bring along."""

from __future__ import annotations

import subprocess
import zipfile
from importlib.util import find_spec
from pathlib import Path

_SOURCES = Path(__file__).parent / "java"


def compile_to_jar(folder: Path) -> Path:
    """A jar of everything in `java/`, made in `folder`."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    spark = Path(spec.submodule_search_locations[0]) / "jars" / "*"
    classes = folder / "classes"
    sources = [str(source) for source in _SOURCES.rglob("*.java")]
    subprocess.run(
        ["javac", "--release", "17", "-cp", str(spark), "-d", str(classes), *sources], check=True
    )
    jar = folder / "test-classes.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
    return jar
