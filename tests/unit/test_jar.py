from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from eoskafka import JarError, __version__, _jar


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in (
        "jvm-shim/pom.xml",
        "jvm-shim/connector/pom.xml",
        "jvm-shim/connector/src/main/java/A.java",
        "python/eoskafka/spec/options.json",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path


def write_jar(path: Path, **properties: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        archive.writestr("io/eoskafka/build.properties", text)
    return path


def test_the_digest_is_the_same_for_the_same_sources(checkout: Path) -> None:
    assert _jar.sources_digest(checkout) == _jar.sources_digest(checkout)


@pytest.mark.parametrize(
    "name",
    [
        "jvm-shim/pom.xml",
        "jvm-shim/connector/src/main/java/A.java",
        "jvm-shim/connector/src/main/java/New.java",
        "python/eoskafka/spec/options.json",
    ],
)
def test_the_digest_changes_with_every_source(checkout: Path, name: str) -> None:
    before = _jar.sources_digest(checkout)
    (checkout / name).write_text("changed")
    assert _jar.sources_digest(checkout) != before


def test_the_digest_changes_when_a_file_is_renamed(checkout: Path) -> None:
    before = _jar.sources_digest(checkout)
    file = checkout / "jvm-shim/connector/src/main/java/A.java"
    file.rename(file.with_name("B.java"))
    assert _jar.sources_digest(checkout) != before


def test_the_digest_ignores_tests_and_byte_code(checkout: Path) -> None:
    before = _jar.sources_digest(checkout)
    for name in (
        "jvm-shim/connector/src/test/java/T.java",
        "python/eoskafka/spec/__pycache__/spec.pyc",
    ):
        (checkout / name).parent.mkdir(parents=True)
        (checkout / name).write_text("x")
    assert _jar.sources_digest(checkout) == before


def test_a_jar_of_another_version_is_refused(tmp_path: Path) -> None:
    jar = write_jar(tmp_path / "a.jar", version="9.9.9", sources="x")
    with pytest.raises(JarError, match=r"is of version 9\.9\.9"):
        _jar.check(jar)


def test_a_stale_jar_names_make_build(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_jar, "checkout", lambda: checkout)
    jar = write_jar(tmp_path / "a.jar", version=__version__, sources="older")
    with pytest.raises(JarError, match=r"stale.*make build"):
        _jar.check(jar)


def test_a_fresh_jar_is_accepted(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_jar, "checkout", lambda: checkout)
    sources = _jar.sources_digest(checkout)
    _jar.check(write_jar(tmp_path / "a.jar", version=__version__, sources=sources))


def test_a_missing_jar_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JarError, match="does not exist"):
        _jar.check(tmp_path / "none.jar")
    (tmp_path / "text.jar").write_text("no zip")
    with pytest.raises(JarError, match="is no eoskafka jar"):
        _jar.check(tmp_path / "text.jar")


def test_a_thin_jar_is_refused_outside_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jar, "checkout", lambda: None)
    with pytest.raises(JarError, match="only be built in a checkout"):
        _jar.ensure_built(thin=True)


def test_a_build_without_maven_says_what_to_install(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_jar, "checkout", lambda: checkout)
    monkeypatch.setattr(_jar, "jar_file", lambda thin: checkout / "none.jar")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JarError, match="install Maven and a JDK 17, then run `make build`"):
        _jar.ensure_built()


@pytest.fixture
def own(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jar of the package, installed with its digest."""
    monkeypatch.setattr(_jar, "checkout", lambda: None)
    built = write_jar(tmp_path / "built.jar", version=__version__)
    jar = tmp_path / "jars" / "eoskafka.jar"
    _jar._install(built, jar)
    monkeypatch.setattr(_jar, "jar_file", lambda thin=False: jar)
    monkeypatch.delenv("EOSKAFKA_JAR", raising=False)
    monkeypatch.delenv("EOSKAFKA_ALLOW_OTHER_JAR", raising=False)
    return jar


def test_a_jar_that_was_changed_after_it_was_built_is_refused(own: Path) -> None:
    assert _jar.to_run() == own
    with zipfile.ZipFile(own, "a") as archive:
        archive.writestr("io/eoskafka/Added.class", b"")
    with pytest.raises(JarError, match=r"changed after it was built: its SHA-256 is .*reinstall"):
        _jar.to_run()


def test_an_installed_jar_without_its_digest_is_refused(own: Path) -> None:
    own.with_name(f"{own.name}.sha256").unlink()
    with pytest.raises(JarError, match=r"sha256 is missing, so nobody can tell .*reinstall"):
        _jar.to_run()


def test_commands_run_another_jar_only_if_that_is_allowed(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_jar(tmp_path / "other.jar", version=__version__, sources="others")
    monkeypatch.setenv("EOSKAFKA_JAR", str(other))
    for value in ("", "false", "1"):
        monkeypatch.setenv("EOSKAFKA_ALLOW_OTHER_JAR", value)
        with pytest.raises(JarError, match="not the jar that this package was built with"):
            _jar.to_run()
    monkeypatch.setenv("EOSKAFKA_ALLOW_OTHER_JAR", "true")
    assert _jar.to_run() == other


def test_commands_run_a_copy_of_the_packages_jar(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.jar"
    copy.write_bytes(own.read_bytes())
    monkeypatch.setenv("EOSKAFKA_JAR", str(copy))
    assert _jar.to_run() == copy
    copy.unlink()
    with pytest.raises(JarError, match=r"EOSKAFKA_JAR names .*, which does not exist"):
        _jar.to_run()


def test_no_command_takes_a_jar_of_the_environment_unchecked() -> None:
    package = Path(_jar.__file__).parent
    readers = [file for file in package.rglob("*.py") if "EOSKAFKA_JAR" in file.read_text()]
    # jobs.py names it in a message.
    assert {file.name for file in readers} == {"_jar.py", "jobs.py"}
    assert "environ" not in (package / "jobs.py").read_text(encoding="utf-8")


def test_an_installed_jar_leaves_no_other_beside_it(own: Path, tmp_path: Path) -> None:
    for name in ("eoskafka-older.jar", "eoskafka-older.jar.sha256"):
        (own.parent / name).write_text("older")
    _jar._install(tmp_path / "built.jar", own)
    assert {file.name for file in own.parent.iterdir()} == {own.name, f"{own.name}.sha256"}
