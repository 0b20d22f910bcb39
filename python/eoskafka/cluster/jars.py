"""Kafka's own jars: resolved once into the cache, and checked against the pinned digests.

The lock file names every jar, so nothing is resolved: Python downloads them from a Maven repository
(`repository.py`), and the same files come from whatever mirror.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from eoskafka.cluster.repository import Repository, repository
from eoskafka.errors import ClusterError

KAFKA_VERSION = "4.3.1"

_LOCK_FILE = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.lock")
# Most of the jars are small, so waiting for answers is most of the time.
_DOWNLOADS_AT_ONCE = 8


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

    @property
    def path(self) -> str:
        """Where it is in a Maven repository."""
        group = self.group.replace(".", "/")
        return f"{group}/{self.artifact}/{self.version}/{self.file_name}"


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
    home = _home()
    if not home.is_dir():
        _resolve(lock, home)
    verify(lock, home)
    return [home / jar.file_name for jar in lock]


def are_here() -> bool:
    """Whether `kafka_jars` has nothing to download."""
    return _home().is_dir()


def verify(lock: Sequence[LockedJar], folder: Path) -> None:
    """Compare every locked jar in `folder` with its digest; ClusterError names a bad one."""
    for jar in lock:
        path = folder / jar.file_name
        if not path.is_file():
            raise ClusterError(f"{path} is missing: delete {folder} and start again")
        found = _sha256(path)
        if found != jar.sha256:
            raise ClusterError(
                f"{path} is not the pinned {jar.group}:{jar.artifact}:{jar.version}: its SHA-256 "
                f"is {found}, pinned is {jar.sha256}. Nothing was started. Delete {folder} to "
                "download it again; if it differs again, the repository serves another file."
            )


def _home() -> Path:
    """Their folder. A digest of the lock is in its name: a changed lock has a folder of its own."""
    return cache_dir() / f"kafka-{KAFKA_VERSION}-{_sha256(_LOCK_FILE)[:8]}"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _resolve(lock: Sequence[LockedJar], home: Path) -> None:
    """Download into a folder of our own, verify, then rename: the cache is whole or absent."""
    home.parent.mkdir(parents=True, exist_ok=True)
    source = repository()
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".resolving-") as name:
        jars = Path(name) / "jars"
        jars.mkdir()
        with ThreadPoolExecutor(max_workers=_DOWNLOADS_AT_ONCE) as pool:
            downloads = [pool.submit(_fetch, jar, source, jars) for jar in lock]
            try:
                for download in downloads:
                    download.result()
            except ClusterError:
                pool.shutdown(cancel_futures=True)
                raise
        verify(lock, jars)
        with contextlib.suppress(OSError):  # another process was faster, with the same files
            jars.rename(home)


def _fetch(jar: LockedJar, source: Repository, folder: Path) -> None:
    """Take a jar from Maven's files on this machine, or else download it."""
    target = folder / jar.file_name
    local = Path.home() / ".m2" / "repository" / jar.path
    if local.is_file() and _sha256(local) == jar.sha256:
        shutil.copyfile(local, target)
    else:
        source.download(jar.path, target)
