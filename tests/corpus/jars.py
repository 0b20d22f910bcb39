"""The connector's jar of a commit, and what to call a jar in a report."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from eoskafka._jar import build_properties, sources_digest

ROOT = Path(__file__).resolve().parent.parent.parent


def of_commit(commit: str, folder: Path) -> Path:
    """The jar that is built from `commit`, kept in `folder`.

    Raises:
        subprocess.CalledProcessError: there is no such commit, or its jar cannot be built.
    """
    jar = folder / f"eoskafka-{full(commit)}.jar"
    if jar.is_file():
        return jar
    print(f"building the jar of {commit}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="eoskafka-corpus-") as name:
        tree = Path(name)
        with tarfile.open(fileobj=io.BytesIO(_git("archive", full(commit)))) as archive:
            archive.extractall(tree, filter="data")
        built = _build(tree)
        folder.mkdir(parents=True, exist_ok=True)
        draft = jar.with_suffix(".tmp")
        shutil.copyfile(built, draft)
        draft.replace(jar)
    return jar


def _build(tree: Path) -> Path:
    version = "0.0.0"
    mvn = shutil.which("mvn") or "mvn"
    subprocess.run(
        [
            *(mvn, "-q", "-B", "-f", "jvm-shim/pom.xml", "-pl", "connector", "package"),
            *("-Dmaven.test.skip=true", f"-Drevision={version}"),
            f"-Deoskafka.sources={sources_digest(tree)}",
        ],
        cwd=tree,
        check=True,
        stdout=sys.stderr,
    )
    return tree / "jvm-shim" / "connector" / "target" / f"eoskafka-{version}.jar"


def full(commit: str) -> str:
    """The commit's whole id."""
    return _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()


def label(jar: Path) -> str:
    """The commit whose sources the jar was built from, if that is HEAD; else their digest."""
    sources = build_properties(jar).get("sources", "unknown")
    if sources == sources_digest(ROOT):
        return f"{full('HEAD')[:7]}{'' if _is_clean() else ' with changes that are not committed'}"
    return f"sources {sources[:12]}"


def _is_clean() -> bool:
    return not _git("status", "--porcelain", "--", "jvm-shim", "python/eoskafka/spec").strip()


def digest(*files: Path) -> str:
    """A short digest of what the files hold."""
    found = hashlib.sha256()
    for file in files:
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout
