"""Builds everything twice, in two folders, and compares the digests.

Each build starts from a copy of the files that git knows, as they are in the working tree, and of
nothing else. Both use the same JDK, Python and build tools: other versions of these may give other
bytes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

_BUILD = """
import sys
sys.path[:0] = ["release", "python"]
import make
make.build()
"""


def build_twice(root: Path, dist: Path, folder: Path) -> None:
    """Fill `dist` from one build, if another one gives the same bytes.

    Args:
        root: the checkout.
        dist: a folder that does not exist yet.
        folder: an empty one for the two builds.

    Raises:
        AssertionError: a file of one build is not as in the other. The message names it.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["SOURCE_DATE_EPOCH"] = _time_of_commit(root)
    found = []
    for name in ("first", "second-in-a-folder-with-another-name"):
        checkout = folder / name
        _copy(root, checkout)
        subprocess.run(
            [sys.executable, "-c", _BUILD],
            cwd=checkout,
            env=environment,
            stdout=sys.stderr,
            check=True,
        )
        found.append(digests(checkout / "dist"))
    first, second = found
    different = sorted(name for name in first | second if first.get(name) != second.get(name))
    assert not different, f"two builds of {root} in {folder} differ in {different}"
    for name, digest in first.items():
        print(f"  {digest}  {name}", file=sys.stderr)
    shutil.copytree(folder / "first" / "dist", dist)


def digests(dist: Path) -> dict[str, str]:
    """The SHA-256 of each file by its path in `dist`, except of files that hold a digest."""
    files = sorted(file for file in dist.rglob("*") if file.is_file())
    return {
        file.relative_to(dist).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.suffix not in {".md5", ".sha1", ".sha256", ".sha512"}
    }


def _time_of_commit(root: Path) -> str:
    """In seconds: a release is as old as its commit."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _copy(root: Path, folder: Path) -> None:
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run([*command, "--exclude-standard"], capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (root / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, target)
            shutil.copymode(root / name, target)
