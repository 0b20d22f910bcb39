from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from eoskafka.cluster import jars
from eoskafka.errors import ClusterError


def test_the_lock_pins_every_jar_of_the_broker_once() -> None:
    lock = jars.read_lock()
    assert len({jar.file_name for jar in lock}) == len(lock)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in lock)
    artifacts = {jar.artifact for jar in lock}
    # Without the binding the broker's log stays empty.
    assert {"kafka_2.13", "kafka-clients", "log4j-core", "log4j-slf4j-impl"} <= artifacts


def test_every_kafka_jar_is_of_the_one_kafka_version() -> None:
    ours = [jar for jar in jars.read_lock() if jar.group == "org.apache.kafka"]
    assert {jar.version for jar in ours} == {jars.KAFKA_VERSION}


def test_a_jar_with_another_digest_is_refused_by_name(tmp_path: Path) -> None:
    locked = jars.LockedJar("g", "a", "1", hashlib.sha256(b"pinned").hexdigest())
    (tmp_path / "a-1.jar").write_bytes(b"tampered")
    with pytest.raises(ClusterError, match=r"a-1\.jar is not the pinned g:a:1"):
        jars.verify([locked], tmp_path)
    (tmp_path / "a-1.jar").write_bytes(b"pinned")
    jars.verify([locked], tmp_path)


def test_a_jar_that_was_changed_in_the_cache_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = jars.LockedJar("g", "a", "1", hashlib.sha256(b"pinned").hexdigest())
    monkeypatch.setattr(jars, "read_lock", lambda: [locked])
    monkeypatch.setattr(jars, "_home", lambda: tmp_path)
    (tmp_path / "a-1.jar").write_bytes(b"pinned")
    assert jars.kafka_jars() == [tmp_path / "a-1.jar"]
    (tmp_path / "a-1.jar").write_bytes(b"tampered")
    with pytest.raises(ClusterError, match="Nothing was started"):
        jars.kafka_jars()


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EOSKAFKA_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert jars.cache_dir() == Path("/own")
    monkeypatch.delenv("EOSKAFKA_CACHE")
    assert jars.cache_dir() == Path("/xdg/eoskafka")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert jars.cache_dir() == Path.home() / ".cache" / "eoskafka"
