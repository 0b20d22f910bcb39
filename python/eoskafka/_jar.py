"""The connector's jar: where it is, whether it belongs to this package, and how it is built.

`setup.py` uses this file before the package is installed, so it needs the standard library only.

Two places are known. `python/eoskafka/jars/` holds the one jar that the wheel carries, and its
digest (in a checkout both are made by `make build`). The thin jar, with kafka-clients under its own
name, is not shipped: it is built in a checkout for those who need it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from eoskafka._version import __version__
from eoskafka.errors import JarError

_PACKAGE = Path(__file__).parent
BUILD_PROPERTIES = "io/eoskafka/build.properties"
# What the jar contains, in the CycloneDX format.
SBOM = "META-INF/sbom/eoskafka.cdx.json"
# Names a jar that the package's commands run in the place of its own.
VARIABLE = "EOSKAFKA_JAR"
# Allows any jar there if it is `true`, such as the thin one.
ALLOW = "EOSKAFKA_ALLOW_OTHER_JAR"
_SOURCES = (
    "LICENSE",
    "NOTICE",
    "jvm-shim/pom.xml",
    "jvm-shim/connector/pom.xml",
    "jvm-shim/connector/src/main",
    "python/eoskafka/spec",
)


def checkout() -> Path | None:
    """The root of the checkout or unpacked sdist that this file is in; None when installed."""
    root = _PACKAGE.parent.parent
    return root if (root / "jvm-shim" / "connector" / "pom.xml").is_file() else None


def in_archive() -> bool:
    """Whether this package is imported from a zip file, as spark-submit's --py-files has it."""
    return not _PACKAGE.is_dir()


def jar_file(thin: bool = False) -> Path:
    """Where the jar belongs, whether it is there or not. JarError for a thin one if installed."""
    if not thin:
        return _PACKAGE / "jars" / f"eoskafka-{__version__}.jar"
    return _target(_need_checkout(), thin=True)


def sources_digest(root: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> str:
    """SHA-256 over the sorted relative paths and the contents of everything the jar is made of.

    Args:
        root: the checkout.
        read: what counts as a file's content.
    """
    files: list[Path] = []
    for source in _SOURCES:
        path = root / source
        files += [path] if path.is_file() else (p for p in path.rglob("*") if p.is_file())
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.relative_to(root).as_posix()):
        if "__pycache__" in file.parts:
            continue
        content = read(file)
        # The length keeps (path, content) pairs apart.
        digest.update(f"{file.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def build_properties(jar: Path | IO[bytes]) -> dict[str, str]:
    """What the build wrote into the jar: `version`, `sources`, `spark`, `scala`, `kafka`."""
    try:
        with zipfile.ZipFile(jar) as archive:
            text = archive.read(BUILD_PROPERTIES).decode("utf-8")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise JarError(f"{jar} is no eoskafka jar ({error}): {_remedy()}") from error
    return properties_of(text)


def properties_of(text: str) -> dict[str, str]:
    """The lines `key=value` of a file of build properties."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def check(jar: Path) -> None:
    """Raise JarError unless `jar` exists, is unchanged since its build, and fits this package.

    It fits if it has the package's version and, in a checkout, was built from the current sources.
    """
    if not jar.is_file():
        raise JarError(f"{jar} does not exist: {_remedy()}")
    found = build_properties(jar)
    if found.get("version") != __version__:
        raise JarError(
            f"{jar} is of version {found.get('version')}, "
            f"this package is {__version__}: {_remedy()}"
        )
    root = checkout()
    if root is not None and found.get("sources") != sources_digest(root):
        raise JarError(
            f"{jar} is stale, because its sources have changed since it was built: {_remedy()}"
        )
    recorded = _record(jar)
    if root is None and not recorded.is_file():
        raise JarError(
            f"{recorded} is missing, so nobody can tell whether {jar.name} was changed after it "
            f"was built. Nothing was read or written: {_remedy()}"
        )
    if recorded.is_file() and (digest := _sha256(jar)) != _recorded(recorded):
        raise JarError(
            f"{jar} was changed after it was built: its SHA-256 is {digest}, and {recorded.name} "
            f"has {_recorded(recorded)}. Nothing was read or written: {_remedy()}"
        )


def to_run() -> Path:
    """The jar that commands run: the one that EOSKAFKA_JAR names, else this package's own.

    Raises:
        JarError: the package has no jar; the named jar is missing; or it is not the one that the
            package was built with, and EOSKAFKA_ALLOW_OTHER_JAR does not allow another one.
    """
    own = jar_file()
    given = os.environ.get(VARIABLE)
    if not given:
        check(own)
        return own
    jar = Path(given)
    if not jar.is_file():
        raise JarError(
            f"{VARIABLE} names {jar}, which does not exist. Nothing was read or written. Correct "
            f"the path, or unset {VARIABLE}."
        )
    if os.environ.get(ALLOW) == "true":
        return jar
    check(own)
    if _sha256(jar) != _sha256(own):
        raise JarError(
            f"{VARIABLE} names {jar}, which is not the jar that this package was built with: its "
            f"SHA-256 is {_sha256(jar)}, and the package's is {_sha256(own)}. Nothing was read or "
            f"written. Unset {VARIABLE}, or set {ALLOW}=true if you trust that file."
        )
    return jar


def ensure_built(thin: bool = False) -> Path:
    """The jar, built with Maven if it is missing or stale. JarError if that is not possible."""
    jar = jar_file(thin)
    try:
        check(jar)
    except JarError:
        root = _need_checkout()
        _run_maven(root, thin)
        if not thin:
            _install(_target(root, thin=False), jar)
        check(jar)
    return jar


def _run_maven(root: Path, thin: bool) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise JarError(
            "the connector's jar must be built and Maven (mvn) is not on the PATH: "
            f"install Maven and a JDK 17, then run `make build` in {root}"
        )
    command = [
        *(mvn, "-q", "-B", "-Dstyle.color=never"),
        *("-f", str(root / "jvm-shim" / "pom.xml"), "-pl", "connector"),
        *("package", "-DskipTests", f"-Drevision={__version__}"),
        f"-Deoskafka.sources={sources_digest(root)}",
        *([f"-Dproject.build.outputTimestamp={time}"] if (time := time_of_release()) else []),
        *(["-Pthin"] if thin else []),
    ]
    # Maven's output is a message, not this command's data.
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise JarError(f"Maven could not build the jar (exit code {done.returncode}, see above)")


def time_of_release() -> str | None:
    """The time that SOURCE_DATE_EPOCH gives the entries of a jar, as ISO 8601; None without it."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds:
        return None
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _install(built: Path, jar: Path) -> None:
    """Put the built jar in its place, whole, and leave no other version beside it."""
    jar.parent.mkdir(exist_ok=True)
    draft = jar.with_suffix(f".{os.getpid()}.tmp")
    shutil.copyfile(built, draft)
    digest = _sha256(draft)
    # If this process dies between the next two steps, the jar counts as changed and is rebuilt.
    draft.replace(jar)
    _record(jar).write_text(f"{digest}  {jar.name}\n", encoding="ascii")
    for other in jar.parent.glob("*.jar*"):
        if other not in (jar, _record(jar)):
            other.unlink()


def _record(jar: Path) -> Path:
    """Where the digest of a jar is kept, in the form of `sha256sum --check`."""
    return jar.with_name(f"{jar.name}.sha256")


def _recorded(record: Path) -> str:
    return record.read_text(encoding="ascii").partition(" ")[0]


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _target(root: Path, thin: bool) -> Path:
    name = f"eoskafka-{__version__}{'-thin' if thin else ''}.jar"
    return root / "jvm-shim" / "connector" / "target" / name


def _need_checkout() -> Path:
    root = checkout()
    if root is None:
        raise JarError(
            "the jar can only be built in a checkout of eoskafka: this is an installed package "
            f"({_PACKAGE}). Clone the repository and run `make build` there."
        )
    return root


def _remedy() -> str:
    root = checkout()
    if root is None:
        return f"reinstall the package: pip install --force-reinstall eoskafka=={__version__}"
    return f"run `make build` in {root}"


def main() -> None:
    """`make build`: print the jar's path, after building it if it is missing or stale."""
    try:
        print(ensure_built())
    except JarError as error:
        sys.exit(f"error: {error}")
