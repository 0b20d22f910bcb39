"""The demo as a person runs it, beside the built-in connector, with a sink that is wrong, and
interrupted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.jars import kafka_jars
from eoskafka.demo.job import EXTRA_JARS, SINK_FORMAT

TEST_CLASSES = Path(__file__).parents[2] / "jvm-shim" / "connector" / "target" / "test-classes"
# A demo takes less than three minutes on two cores that are its own; others may be at work.
DEMO_TIMEOUT_S = 600
COMPARISON_TIMEOUT_S = 2 * DEMO_TIMEOUT_S
PARTITIONS = 8
# For records that come after all that were expected.
QUIET_S = 5.0


def demo_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "eoskafka", "demo", *arguments]


def environment(temporary: Path, **more: str) -> Mapping[str, str]:
    """The demo's folder goes into the test's, where its logs are found."""
    return {**os.environ, "TMPDIR": str(temporary), **more}


@dataclass(frozen=True)
class Ended:
    """A demo that has come to its end."""

    exit_code: int
    stdout: str
    stderr: str


def run_demo(
    temporary: Path,
    logs: list[Path],
    *arguments: str,
    timeout_s: float = DEMO_TIMEOUT_S,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Ended:
    out, err = temporary / "demo-stdout.txt", temporary / "demo-stderr.txt"
    logs += [out, err]
    with out.open("w") as stdout, err.open("w") as stderr:
        demo = subprocess.Popen(
            demo_command(*arguments),
            stdout=stdout,
            stderr=stderr,
            env=environment(temporary, **more),
        )
    try:
        demo.wait(timeout_s)
    finally:
        demo.send_signal(signal.SIGINT)  # ends what it has started; nothing if it has ended
        demo.wait(60)
        logs += temporary.glob("eoskafka-demo-*/*/job.log")
    return Ended(demo.returncode, out.read_text(), err.read_text())


def broken_sink_jar(folder: Path) -> Path:
    """The connector's test classes as a jar: the broken sink is never in the one that ships."""
    if not TEST_CLASSES.is_dir():
        pytest.fail(f"{TEST_CLASSES} is missing: run `mvn -f jvm-shim/pom.xml test-compile`")
    jar = folder / "broken-sink.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in TEST_CLASSES.rglob("*"):
            archive.write(file, file.relative_to(TEST_CLASSES))
    return jar


@pytest.mark.slow
@pytest.mark.timeout(DEMO_TIMEOUT_S + 90)
def test_the_demo_shows_each_record_exactly_once(tmp_path: Path, keep_logs: list[Path]) -> None:
    done = run_demo(tmp_path, keep_logs, "--seed", "1")
    assert done.exit_code == 0
    assert done.stdout == ("exactly once: 200000 in, 200000 out, 0 lost, 0 duplicated, 6 kills\n")
    assert len(re.findall(r"kill \d/6: driver", done.stderr)) == 2
    assert list(tmp_path.glob("eoskafka-demo-*")) == []


@pytest.mark.slow
@pytest.mark.timeout(COMPARISON_TIMEOUT_S + 120)
def test_a_comparison_says_of_both_connectors_what_is_in_their_topics(
    tmp_path: Path, keep_logs: list[Path]
) -> None:
    picture = tmp_path / "picture.svg"
    done = run_demo(
        tmp_path,
        keep_logs,
        *("--compare", "--seed", "1", "--records", "20000", "--format", "json", "--keep"),
        *("--plot", str(picture)),
        timeout_s=COMPARISON_TIMEOUT_S,
    )
    assert done.exit_code == 0
    of = json.loads(done.stdout)["connectors"]
    assert list(of) == ["built-in", "eoskafka"]
    assert [kill["victim"] for kill in of["built-in"]["kills"]] == [
        kill["victim"] for kill in of["eoskafka"]["kills"]
    ]
    (folder,) = tmp_path.glob("eoskafka-demo-*")
    with LocalCluster(data_dir=folder / "kafka") as cluster:
        for name, said in of.items():
            keys = keys_of(cluster.bootstrap_servers, f"demo-output-{name}")
            counted = (len(keys), len(keys) - len(set(keys)), 20_000 - len(set(keys)))
            assert counted == (said["out"], said["duplicated"], said["lost"]), name
    assert (of["eoskafka"]["out"], of["eoskafka"]["duplicated"]) == (20_000, 0)
    assert f"{of['built-in']['duplicated']:,} duplicates" in picture.read_text(encoding="utf-8")


def keys_of(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    """The keys of a topic, as a `read_committed` consumer of librdkafka finds them.

    It does not stop at an expected number, but when each partition is at its end and nothing more
    has come for a while.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "counts-on-its-own",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    keys: list[bytes | None] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + 120
    quiet_since = time.monotonic()
    while len(ended) < PARTITIONS or time.monotonic() < quiet_since + QUIET_S:
        assert time.monotonic() < deadline, f"{topic}: only {sorted(map(str, ended))} at their ends"
        message: Message | None = consumer.poll(0.5)
        if message is None:
            continue
        quiet_since = time.monotonic()
        error = message.error()
        if error is None:
            ended.discard(message.partition())
            key = message.key()
            keys.append(key.encode() if isinstance(key, str) else key)
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            pytest.fail(f"{topic}: {error}")
    consumer.close()
    return keys


@pytest.mark.slow
@pytest.mark.timeout(DEMO_TIMEOUT_S + 90)
def test_a_sink_that_commits_records_and_offsets_apart_is_caught(
    tmp_path: Path, keep_logs: list[Path]
) -> None:
    (clients,) = (jar for jar in kafka_jars() if jar.name.startswith("kafka-clients"))
    extra = [broken_sink_jar(tmp_path), clients]
    done = run_demo(
        tmp_path,
        keep_logs,
        *("--seed", "1", "--records", "60000"),
        more={SINK_FORMAT: "eoskafka-broken", EXTRA_JARS: ",".join(map(str, extra))},
    )
    assert done.exit_code == 1
    *_, verdict = done.stdout.splitlines()
    assert verdict.startswith("NOT exactly once: 60000 in, ")
    assert re.search(
        r"^duplicated: key '.+\.py:\d+' \(output partition \d, offset \d+\)", done.stdout, re.M
    )


@pytest.mark.slow
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        demo_command("--records", "20000", "--seed", "1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    ) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "running the job" in line:
                break
        wait_for_executors(tmp_path)
        demo.send_signal(signal.SIGINT)
        said = demo.stderr.read()
        assert demo.wait(timeout=60) != 0
    assert commands_naming(tmp_path) == []
    assert list(tmp_path.glob("eoskafka-demo-*")) == [], said


def wait_for_executors(folder: Path) -> None:
    deadline = time.monotonic() + 200
    while not any("CoarseGrainedExecutorBackend" in c for c in commands_naming(folder)):
        assert time.monotonic() < deadline, "no executor was started within 200 s"
        time.sleep(0.2)


def commands_naming(folder: Path) -> list[str]:
    """Command lines of running processes that have the folder's name in them."""
    if shutil.which("ps") is None:
        pytest.skip("the command ps is needed")
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "command="], capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line]
