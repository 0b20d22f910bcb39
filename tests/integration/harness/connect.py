"""A server of Spark Connect with this connector, and a program that is its client."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eoskafka.session import PLUGIN_CLASS, jar_path

from harness.waiting import until

_CLIENT = Path(__file__).with_name("connect_client.py")
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A server in a process of its own, as `sc://host:port`; its log is `folder`/connect.log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jar = os.environ.get("EOSKAFKA_JAR") or str(jar_path())
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": jar,
        "spark.plugins": PLUGIN_CLASS,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    log = folder / "connect.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*command, "--driver-memory", "1g", "--class", _SERVER, "spark-internal"],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    try:

        def is_up() -> bool:
            assert server.poll() is None, log.read_text(encoding="utf-8")[-4_000:]
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(is_up, "the Connect server", 90)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


def client(url: str, what: str, **spec: Any) -> dict[str, Any]:
    """What a client program of its own has to say of its work: see `connect_client.py`."""
    done = subprocess.run(
        [sys.executable, str(_CLIENT), what, json.dumps({"url": url, **spec})],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
