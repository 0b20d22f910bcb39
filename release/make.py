"""`make release`: builds `dist/`, checks it, and says what is left for a person.

Nothing is uploaded, signed or tagged here. `maven.py` makes the Maven bundle, `reproducible.py`
builds everything twice, `check.py` tries what is in `dist/` as users install it, and `pipeline.py`
is the job that `--packages` is tried with.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import check
import maven
import reproducible
from eoskafka import __version__
from eoskafka._jar import SBOM, jar_file

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
WORK = ROOT / "build" / "release"

T = TypeVar("T")


def main() -> None:
    """The whole of it."""
    stale = stale_evidence()
    if stale and git("tag", "--points-at", "HEAD", f"v{__version__}"):
        raise SystemExit(
            f"This commit has the tag v{__version__}, and is not released without evidence: run "
            f"`make prove`, commit reports/, and move the tag. {stale}"
        )
    shutil.rmtree(DIST, ignore_errors=True)
    step(
        "building twice and comparing",
        lambda: reproducible.build_twice(ROOT, DIST, check.empty(WORK / "builds")),
    )
    step("checking their metadata", lambda: check.metadata(DIST))
    machine = step(
        "trying the wheel in an empty environment, without Maven",
        lambda: check.wheel(DIST, check.empty(WORK / "wheel")),
    )
    step("listing what that environment has", lambda: check.environment(DIST, machine))
    step(
        "trying the sdist in an empty environment, without Maven",
        lambda: check.sdist(DIST, check.empty(WORK / "sdist")),
    )
    step(
        "trying --packages with spark-submit",
        lambda: check.packages(DIST / maven.FOLDER, machine),
    )
    sums()
    print(left(stale))


def build() -> None:
    """Build `dist/` in this checkout."""
    # The modes of files are in the wheel.
    os.umask(0o022)
    step("building the wheel and the sdist", packages)
    step("building the Maven bundle", lambda: maven.bundle(ROOT, DIST))
    # The jar and the wheel have it, too.
    with zipfile.ZipFile(jar_file()) as jar:
        (DIST / f"eoskafka-{__version__}.cdx.json").write_bytes(jar.read(SBOM))


def step(name: str, action: Callable[[], T]) -> T:
    """Do one step, and say how long it took."""
    print(f"{name} ...", file=sys.stderr)
    began = time.monotonic()
    result = action()
    print(f"  done in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return result


def packages() -> None:
    """The sdist, and from it the wheel, with the build tools of this environment."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def sums() -> None:
    """`dist/SHA256SUMS`, in the form of `sha256sum --check`."""
    files = sorted(file for file in DIST.iterdir() if file.is_file())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def stale_evidence() -> str:
    """The stages of `make prove` that have not passed with these sources; empty if all have."""
    return subprocess.run(
        [sys.executable, "-m", "prove", "--stale"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'tests' / 'integration'}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()


def left(stale: str) -> str:
    """What a person has to do to publish it.

    Args:
        stale: as `stale_evidence` has it.
    """
    steps = []
    if stale:
        steps.append(
            "Run `make prove` and commit reports/: without it, `make release` refuses a commit "
            f"that has the tag of the version. {stale}"
        )
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        steps.append(
            "Commit these changes and run `make release` again, so that the release can be built "
            f"from its tag:\n{changed}"
        )
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"\n## {__version__}" not in changelog:
        steps.append(
            f"Rename the section `Unreleased` of CHANGELOG.md to `{__version__}` with today's date."
        )
    name = f"eoskafka-{__version__}"
    steps += [
        "Add <url>, <scm> and <developers> to the pom in release/maven.py. Maven Central requires "
        "them, and this repository does not say where it is published and by whom.",
        f"Tag the commit and push the tag: git tag -s v{__version__} && git push origin "
        f"v{__version__}. The workflow `release` repeats this build from the tag.",
        f"Upload to the Python package index: twine upload dist/{name}-py3-none-any.whl "
        f"dist/{name}.tar.gz",
        f"Sign every jar and the pom in dist/maven (gpg --armor --detach-sign FILE), zip the "
        f"folder again, and upload it to Maven Central in place of dist/{name}-maven.zip.",
        "Attach the files of dist/ and SHA256SUMS to the release page, with the section of "
        "CHANGELOG.md.",
        "Set the next version in python/eoskafka/_version.py and begin a section `Unreleased`.",
    ]
    numbered = "\n".join(f"{number}. {text}" for number, text in enumerate(steps, 1))
    return f"{name} is built and checked in dist/. What is left for a person:\n\n{numbered}"


def git(*arguments: str) -> str:
    """The output of git; empty outside a repository."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.rstrip()


if __name__ == "__main__":
    main()
