"""Lists the jars of each Spark version that the connector's classes are linked against.

`python jvm-shim/linkage/jars.py [SITE_PACKAGES ...]` writes build/spark/VERSION.classpath for each
of them, unless it is there and its jars are too. SparkLinkageTest reads the lists. Jars come from
Maven. A version that Maven Central lacks is taken from its release of pyspark, which has the same
jars, and is kept in build/spark. Each SITE_PACKAGES is a folder where a pyspark is installed, for
further versions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

# The first release, those that platforms have, and what the jar is compiled with. Before 4.0 there
# are two versions of Scala; a release without one has 2.13.
SCALA = "-scala-"
MAVEN = (f"3.5.1{SCALA}2.12", "3.5.8", "4.0.0", "4.0.1", "4.1.1", "4.2.0")
PYPI = ("4.3.0",)

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "spark"


def main() -> None:
    """Make what is missing, and print one line for each version."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for version in MAVEN:
        if not _is_there(version):
            _of_maven(version)
        print(f"Spark {version}: jars of Maven Central")
    for version in PYPI:
        if not _is_there(version):
            _of_pypi(version)
        print(f"Spark {version}: jars of pyspark")
    for given in sys.argv[1:]:
        pyspark = Path(given) / "pyspark"
        (info,) = Path(given).glob("pyspark-*.dist-info")
        version = info.name.removeprefix("pyspark-").removesuffix(".dist-info")
        _write(version, sorted((pyspark / "jars").glob("*.jar")))
        print(f"Spark {version}: jars in {pyspark}")


def _list(version: str) -> Path:
    return FOLDER / f"{version}.classpath"


def _is_there(version: str) -> bool:
    if not _list(version).is_file():
        return False
    jars = _list(version).read_text(encoding="utf-8").strip().split(os.pathsep)
    return all(Path(jar).is_file() for jar in jars)


def _write(version: str, jars: list[Path]) -> None:
    _list(version).write_text(os.pathsep.join(map(str, jars)), encoding="utf-8")


def _of_maven(version: str) -> None:
    release, _, scala = version.partition(SCALA)
    subprocess.run(
        [
            *("mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(HERE / "pom.xml")),
            *("dependency:build-classpath", f"-Dspark.version={release}"),
            f"-Dscala.binary.version={scala or '2.13'}",
            f"-Dmdep.outputFile={_list(version)}",
        ],
        check=True,
    )


def _of_pypi(version: str) -> None:
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary=:all:",
    ]
    archive = FOLDER / f"pyspark-{version}.tar.gz"
    if not archive.is_file():
        # Its metadata are made by a build that needs nothing but setuptools.
        subprocess.run([*download, "--dest", str(FOLDER), f"pyspark=={version}"], check=True)
    jars = FOLDER / version
    jars.mkdir(exist_ok=True)
    with tarfile.open(archive) as packed:
        for member in packed:
            name = Path(member.name)
            if name.suffix == ".jar" and name.parts[1:3] == ("deps", "jars"):
                content = packed.extractfile(member)
                assert content is not None
                (jars / name.name).write_bytes(content.read())
    archive.unlink()
    _write(version, sorted(jars.glob("*.jar")))


if __name__ == "__main__":
    main()
