"""Kafka's own jars: resolved once into the cache, and checked against the pinned digests.

The lock file names every jar, so a resolver only downloads and decides nothing: the same files
come whether Maven or Ivy fetches them, and whatever mirror they come from.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from eoskafka.errors import ClusterError

KAFKA_VERSION = "4.3.1"

_LOCK_FILE = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.lock")
_MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
# A budget for 45 MB over a slow line, not a measure.
_RESOLVE_TIMEOUT_S = 600


@dataclasses.dataclass(frozen=True)
class LockedJar:
    """One line of the lock file: `sha256  group:artifact:version`."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def cache_dir() -> Path:
    """`$EOSKAFKA_CACHE`, else `eoskafka` in the user's cache folder."""
    if own := os.environ.get("EOSKAFKA_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eoskafka"


def java() -> str:
    """The `java` of `$JAVA_HOME`, else of the PATH; ClusterError if there is none."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        return found
    raise ClusterError("no Java found: install a JDK 17 or newer, or set JAVA_HOME")


def read_lock(path: Path = _LOCK_FILE) -> list[LockedJar]:
    """The pinned jars, in the order of the file."""
    jars = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            sha256, coordinates = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(LockedJar(group, artifact, version, sha256))
    return jars


def kafka_jars() -> list[Path]:
    """Paths of Kafka's jars in the cache, downloaded first if they are not there.

    Raises ClusterError if they cannot be downloaded or one is not the pinned one.
    """
    lock = read_lock()
    home = cache_dir() / f"kafka-{KAFKA_VERSION}-{_lock_id()}"
    if not home.is_dir():
        _resolve(lock, home)
    verify(lock, home)
    return [home / jar.file_name for jar in lock]


def verify(lock: Sequence[LockedJar], folder: Path) -> None:
    """Compare every locked jar in `folder` with its digest; ClusterError names a bad one."""
    for jar in lock:
        path = folder / jar.file_name
        if not path.is_file():
            raise ClusterError(f"{path} is missing: delete {folder} and start again")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != jar.sha256:
            raise ClusterError(
                f"{path} is not the pinned {jar.group}:{jar.artifact}:{jar.version}: its SHA-256 "
                f"is {found}, pinned is {jar.sha256}. Nothing was started. Delete {folder} to "
                "download it again; if it differs again, the repository serves another file."
            )


def _lock_id() -> str:
    """Short digest of the lock, so that a changed lock never meets an older cache."""
    return hashlib.sha256(_LOCK_FILE.read_bytes()).hexdigest()[:8]


def _resolve(lock: Sequence[LockedJar], home: Path) -> None:
    """Download into a folder of our own, verify, then rename: the cache is whole or absent."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".resolving-") as name:
        work = Path(name)
        jars = work / "jars"
        jars.mkdir()
        _run_resolver(_resolver_command(lock, work, jars))
        verify(lock, jars)
        with contextlib.suppress(OSError):  # another process was faster, with the same files
            jars.rename(home)


def _resolver_command(lock: Sequence[LockedJar], work: Path, jars: Path) -> list[str]:
    if mvn := shutil.which("mvn"):
        return _maven_command(mvn, lock, work, jars)
    if ivy := _ivy_jar():
        return _ivy_command(ivy, lock, work, jars)
    raise ClusterError(
        "Kafka's jars cannot be downloaded: install Maven (the command mvn), "
        "or pip install 'eoskafka[local]', whose pyspark brings Ivy"
    )


def _maven_command(mvn: str, lock: Sequence[LockedJar], work: Path, jars: Path) -> list[str]:
    dependencies = "\n".join(
        f"<dependency><groupId>{j.group}</groupId><artifactId>{j.artifact}</artifactId>"
        f"<version>{j.version}</version></dependency>"
        for j in lock
    )
    pom = work / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>io.eoskafka</groupId><artifactId>local-kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>",
        encoding="utf-8",
    )
    return [
        *(mvn, "-B", "-q", "-f", str(pom), _MAVEN_GOAL),
        *(f"-DoutputDirectory={jars}", "-DexcludeTransitive=true"),
    ]


def _ivy_command(ivy: Path, lock: Sequence[LockedJar], work: Path, jars: Path) -> list[str]:
    dependencies = "\n".join(
        f'<dependency org="{j.group}" name="{j.artifact}" rev="{j.version}" '
        'transitive="false" conf="default->master"/>'
        for j in lock
    )
    module = work / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="io.eoskafka" module="local-kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    settings = work / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="central"/>'
        # Without a root this is Maven Central.
        '<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>',
        encoding="utf-8",
    )
    return [
        *(java(), "-jar", str(ivy), "-warn", "-settings", str(settings), "-ivy", str(module)),
        *("-cache", str(work / "ivy-cache"), "-types", "jar", "bundle"),
        *("-retrieve", f"{jars}/[artifact]-[revision].jar"),
    ]


def _ivy_jar() -> Path | None:
    """Ivy, from among pyspark's own jars."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"), None)


def _run_resolver(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"Kafka's jars were not downloaded within {_RESOLVE_TIMEOUT_S} s by {command[0]}"
        ) from error
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise ClusterError(
            f"Kafka's jars could not be downloaded ({command[0]} ended with {done.returncode}). "
            f"Is there a way to Maven Central?\n{tail}"
        )
