"""A client of Spark Connect as users install it: the wheel, pyspark-client, and no Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import venv
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from eoskafka.audit import UndecidedError
from harness import Flow, until
from harness.connect import ConnectServer
from harness.versions import HAS_CLIENT_PACKAGE

ROOT = Path(__file__).parents[2]
RECORDS = 2_000

# As a user writes it: input to output, until it is stopped or until there is no more.
PROGRAM = """
import sys
import eoskafka
from pyspark.sql import SparkSession

url, servers, source, target, group, checkpoint, *rest = sys.argv[1:]
spark = eoskafka.configure(SparkSession.builder.remote(url)).getOrCreate()
eoskafka.check(spark)
rows = eoskafka.Source(
    bootstrap_servers=servers,
    subscribe=source,
    group_id=group,
    starting_offsets="earliest",
    max_offsets_per_trigger=100,
).stream(spark)
writer = eoskafka.Sink(bootstrap_servers=servers, topic=target).stream(
    rows.select("key", "value"), checkpoint=checkpoint
)
trigger = {"availableNow": True} if rest else {"processingTime": "0 seconds"}
writer.trigger(**trigger).start().awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not HAS_CLIENT_PACKAGE, reason="there is no pyspark-client of this version")
def test_a_client_without_java_has_its_output_proved_after_the_server_was_killed(
    flow: Flow, tmp_path: Path, keep_logs: list[Path]
) -> None:
    wheels, server_folder = tmp_path / "wheels", tmp_path / "server"
    server_folder.mkdir()
    # An older build's files would be taken over.
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.iterdir()
    flow.produce(RECORDS)
    with ConnectServer(server_folder) as server:
        keep_logs.append(server.log)
        began = time.monotonic()
        venv.create(tmp_path / "venv", with_pip=True)
        bin_ = tmp_path / "venv" / "bin"
        # Nothing but the environment's own commands, and so no java.
        env = {"PATH": str(bin_), "HOME": str(tmp_path)}
        env |= {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_"))}

        def run(*command: object) -> str:
            first, *rest = map(str, command)
            done = subprocess.run(
                [str(bin_ / first), *rest],
                env=env,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            return done.stdout

        client = f"pyspark-client=={pyspark.__version__}"
        run("pip", "install", "--quiet", f"{wheel}[connect,verify]", client)
        installed = time.monotonic()
        said = run("eoskafka", "doctor", "--remote", server.url)
        assert "Java " not in said
        assert "with the connector's jar and plugin" in said

        (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
        arguments = [server.url, flow.servers, flow.input, flow.output, flow.group]
        command = [str(bin_ / "python"), "program.py", *arguments, str(flow.checkpoint)]
        first = subprocess.Popen(command, env=env, cwd=tmp_path)
        try:
            until(lambda: bool(flow.outputs()), "the first output", 120)
            server.kill()
        finally:
            first.kill()
            first.wait(60)
        # A transaction that is left open shows it, too, that the server was killed on the way.
        with suppress(UndecidedError):
            assert 0 < len(flow.outputs()) < RECORDS
        server.restart()
        run("python", *command[1:], "rest")
        verdict = run(
            *("eoskafka", "verify", "--bootstrap-servers", flow.servers, "--group", flow.group),
            *("--input", flow.input, "--output", flow.output, "--by", "digest"),
        )
        ended = time.monotonic()
    assert "exactly once" in verdict.lower(), verdict
    assert not (bin_ / "java").exists()
    print(f"installed after {installed - began:.0f} s, proved after {ended - began:.0f} s")
