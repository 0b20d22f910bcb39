"""Kafka's jars over HTTP: from a repository of a user's own, by settings, and refused by digest."""

from __future__ import annotations

import base64
import functools
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from eoskafka.cluster import jars
from eoskafka.cluster.repository import CENTRAL, VARIABLE, repository
from eoskafka.errors import ClusterError

JAR = jars.LockedJar("org.test", "a", "1", hashlib.sha256(b"pinned").hexdigest())


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder to those who know the password, and fails as often as it is told."""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.paths.append(self.path)
        code = base64.b64encode(b"ann:secret word").decode()
        if server.failures > 0:
            server.failures -= 1
            self.send_error(503)
        elif server.wants_password and self.headers["Authorization"] != f"Basic {code}":
            self.send_error(401)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the tests look at `Server.paths`."""


class Server(ThreadingHTTPServer):
    """A Maven repository on this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        self.paths: list[str] = []
        self.failures = 0
        self.wants_password = False
        self.address = f"127.0.0.1:{self.server_port}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    (folder / ".m2").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("EOSKAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(jars, "read_lock", lambda: [JAR])
    return folder


@pytest.fixture
def server(tmp_path: Path, home: Path) -> Iterator[Server]:
    file = tmp_path / "served" / "maven" / JAR.path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"pinned")
    with Server(tmp_path / "served") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def settings(home: Path, mirror_of: str, url: str, password: str = "secret word") -> None:
    (home / ".m2" / "settings.xml").write_text(
        f"""<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
        <servers><server><id>ours</id><username>${{env.WHO}}</username>
        <password>{password}</password></server></servers>
        <mirrors><mirror><id>ours</id><mirrorOf>{mirror_of}</mirrorOf><url>{url}</url></mirror>
        </mirrors></settings>""",
        encoding="utf-8",
    )


def test_jars_come_from_the_repository_in_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.wants_password = True
    monkeypatch.setenv(VARIABLE, f"http://ann:secret%20word@{server.address}/maven/")
    assert not jars.are_here()
    (jar,) = jars.kafka_jars()
    assert jar.read_bytes() == b"pinned"
    assert jars.are_here()
    assert server.paths == ["/maven/org/test/a/1/a-1.jar"]


def test_jars_come_from_the_mirror_in_mavens_settings(
    server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.wants_password = True
    settings(home, "external:*,!internal", f"http://{server.address}/maven")
    monkeypatch.setenv("WHO", "ann")
    (jar,) = jars.kafka_jars()
    assert jar.read_bytes() == b"pinned"


def test_a_repository_that_fails_for_a_moment_is_asked_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.failures = 2
    monkeypatch.setenv(VARIABLE, f"http://{server.address}/maven")
    (jar,) = jars.kafka_jars()
    assert jar.read_bytes() == b"pinned"
    assert len(server.paths) == 3


def test_a_repository_with_another_file_is_refused_and_nothing_is_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "served" / "maven" / JAR.path).write_bytes(b"tampered")
    monkeypatch.setenv(VARIABLE, f"http://{server.address}/maven")
    with pytest.raises(ClusterError, match=r"a-1\.jar is not the pinned org\.test:a:1"):
        jars.kafka_jars()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_repository_without_the_jar_is_named_without_the_password(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"http://ann:secret%20word@{server.address}/elsewhere")
    with pytest.raises(ClusterError) as refused:
        jars.kafka_jars()
    said = str(refused.value)
    assert f"http://{server.address}/elsewhere/{JAR.path} could not be downloaded" in said
    assert f"set {VARIABLE}" in said
    assert "secret" not in said
    assert len(server.paths) == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_jar_that_maven_has_on_this_machine_is_not_downloaded(
    server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = home / ".m2" / "repository" / JAR.path
    local.parent.mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, f"http://{server.address}/maven")
    local.write_bytes(b"pinned")
    jars.kafka_jars()
    assert server.paths == []


def test_a_redirect_to_another_host_does_not_carry_the_password(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(302)
            self.send_header("Location", f"http://{server.address}/maven/{JAR.path}")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server.wants_password = True
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv(VARIABLE, f"http://ann:secret%20word@127.0.0.1:{other.server_port}")
        with pytest.raises(ClusterError, match="401"):
            jars.kafka_jars()
        other.shutdown()
        thread.join()
    assert seen[0] is not None
    assert len(server.paths) == 1


@pytest.mark.parametrize("mirror_of", ["*", "central", "other, central", "external:*"])
def test_a_mirror_of_central_is_used(home: Path, mirror_of: str) -> None:
    settings(home, mirror_of, "https://mirror.test/maven/")
    assert repository().url == "https://mirror.test/maven"


@pytest.mark.parametrize("mirror_of", ["other", "*,!central", "external:http:*", ""])
def test_a_mirror_of_something_else_is_not(home: Path, mirror_of: str) -> None:
    settings(home, mirror_of, "https://mirror.test/maven")
    assert repository().url == CENTRAL


def test_the_environment_comes_before_mavens_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(home, "*", "https://mirror.test/maven")
    monkeypatch.setenv(VARIABLE, "https://other.test/maven")
    assert repository().url == "https://other.test/maven"


def test_without_settings_it_is_maven_central(home: Path) -> None:
    assert repository().url == CENTRAL


def test_an_encrypted_password_and_a_damaged_file_name_the_variable(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHO", "ann")
    settings(home, "*", "https://mirror.test/maven", password="{jSMOWnoPFgsHVpMvz5VrIt5kRbzGpI8u+}")
    with pytest.raises(ClusterError, match=f"which only Maven can read.*{VARIABLE}"):
        repository()
    (home / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(ClusterError, match=f"cannot be read.*{VARIABLE}"):
        repository()


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv(VARIABLE, "https://ann:secret@mirror.test/maven")
    assert repository().credentials == "ann:secret"
    assert "secret" not in repr(repository())
