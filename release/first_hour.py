"""The quickstart as a new user follows it, from an empty folder to the proof: `make first-hour`.

It runs the commands and programs of docs/quickstart.md and kills the driver twice. The report,
reports/first-hour.md, has what was printed, with times. No Maven, no checkout and no package or jar
that was downloaded before is used.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import check
from eoskafka import __version__

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "quickstart.md"
REPORT = ROOT / "reports" / "first-hour.md"
WHEEL = ROOT / "dist" / f"eoskafka-{__version__}-py3-none-any.whl"
KILLS = 2
# The page says that the first batch has ended by then.
UNTIL_KILL_S = 20.0
# A hundred thousand records at the page's limit of a thousand per batch.
UNTIL_READ_S = 300.0

_HEAD = """\
# The first hour

Written by `make first-hour`. It follows [quickstart.md](../docs/quickstart.md) from an empty
folder, with the wheel that `make release` has built, Python {python} and a JDK: no Maven, no
checkout, and no package or jar that was downloaded before. The numbers in brackets are seconds
since the start. The driver was killed {kills} times, each time {until_kill:.0f} s after it had
printed how to kill it.

- Commit: {commit}. Machine: {cores} cores.
- To the proof: {proof:.0f} seconds, of which pip needed {pip:.0f}.

```
"""


class Terminal:
    """A new user's shell: an empty home, and a transcript of what is typed and printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.transcript: list[str] = []
        self._began = time.monotonic()
        home = folder / "home"
        home.mkdir()
        self._environment = {
            **check.environment_without_maven(folder),
            "HOME": str(home),
            "PIP_NO_CACHE_DIR": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._home = str(home)
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        # Does nothing if the page's commands have done it.
        quietly = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        purge = self._bash("eoskafka cluster purge")
        subprocess.run(purge, cwd=self.folder, env=self._environment, check=False, **quietly)

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began

    def note(self, line: str) -> None:
        """Something that is done without a command."""
        self.transcript.append(f"\n[{self.seconds():3.0f} s] {line}")

    def run(self, command: str) -> str:
        """Run a command, which must succeed, and return what it printed."""
        output, code = self.attempt(command)
        if code:
            raise SystemExit(f"{command} ended with {code}:\n{output}")
        return output

    def attempt(self, command: str) -> tuple[str, int]:
        """Run a command and return what it printed and its exit code."""
        self.note(f"$ {command}")
        ended = subprocess.run(
            self._bash(command),
            cwd=self.folder,
            env=self._environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output = ended.stdout.replace(self._home, "~").replace(f"{self.folder}/", "").strip()
        if output:
            self.transcript.append(output)
        if ended.returncode:
            self.transcript.append(f"exit code {ended.returncode}")
        return output, ended.returncode

    def attempt_until(self, command: str, line: str, timeout_s: float) -> None:
        """Run a command until a line of its output begins so; the last try is in the transcript."""
        deadline, before = time.monotonic() + timeout_s, self.transcript
        while True:
            self.transcript = [*before]
            output, _ = self.attempt(command)
            if f"\n{line}" in f"\n{output}":
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"no '{line}' within {timeout_s:.0f} s:\n{output}")
            time.sleep(2)

    def start(self, command: str, log: Path) -> subprocess.Popen[str]:
        """Start a command that goes on in a terminal of its own."""
        self.note(f"$ {command}")
        with log.open("w") as file:
            process = subprocess.Popen(
                self._bash(command),
                cwd=self.folder,
                env=self._environment,
                text=True,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._started.append(process)
        return process

    def export(self, name: str, value: str) -> None:
        """Set a variable for the commands that follow."""
        self.note(f"$ export {name}={value}")
        self._environment[name] = value

    def _bash(self, command: str) -> list[str]:
        activate = "test ! -d venv || . venv/bin/activate; "
        return ["bash", "-c", activate + (f"exec {command}" if "&&" not in command else command)]


class Job:
    """`job.py`, started in the first terminal."""

    def __init__(self, terminal: Terminal, number: int) -> None:
        self._terminal = terminal
        self._log = terminal.folder / f"job-{number}.log"
        self._process = terminal.start("python job.py", self._log)
        self._kill = self._wait_for(r"kill -9 \d+", 120)

    def kill(self) -> None:
        """Run the command that the job has printed."""
        self._terminal.run(self._kill)
        self._terminal.transcript.append(f"exit code {self._process.wait(60)}")

    def wait(self) -> None:
        """Until it ends by itself."""
        self._terminal.note("python job.py ends")
        self._terminal.transcript.append(f"exit code {self._process.wait(180)}")

    def interrupt(self) -> None:
        """Press Ctrl+C."""
        self._terminal.note("Ctrl+C in the first terminal")
        self._process.send_signal(2)
        self._terminal.transcript.append(f"exit code {self._process.wait(60)}")

    def _wait_for(self, pattern: str, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._process.poll() is None:
            found = re.search(pattern, self._log.read_text(encoding="utf-8"))
            if found:
                return found[0]
            time.sleep(0.2)
        raise SystemExit(f"no {pattern} in:\n{self._log.read_text(encoding='utf-8')}")


def follow(terminal: Terminal) -> tuple[float, float]:
    """Do what the page says; return the seconds to the proof, and those of pip."""
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, re.M | re.S)
    commands = [line for kind, block in blocks if not kind for line in block.splitlines()]

    def of_page(start: str) -> str:
        found: list[str] = [line for line in commands if line.startswith(start)]
        assert len(found) == 1, start
        return found[0]

    programs = [block for kind, block in blocks if kind == "python"]
    for name, program in zip(("topics.py", "job.py"), programs, strict=True):
        (terminal.folder / name).write_text(program, encoding="utf-8")
    (terminal.folder / WHEEL.name).write_bytes(WHEEL.read_bytes())
    terminal.run(of_page("python3 -m venv"))
    before = terminal.seconds()
    terminal.run(of_page("pip install").replace("pip install", "pip install --quiet"))
    pip = terminal.seconds() - before
    terminal.run(of_page("eoskafka doctor"))
    started = terminal.run(of_page("eoskafka cluster start"))
    servers = re.search(r"127\.0\.0\.1:\d+", started)
    assert servers, started
    terminal.export("SERVERS", servers[0])
    terminal.run("python topics.py")
    for number in range(KILLS):
        job = Job(terminal, number)
        time.sleep(UNTIL_KILL_S)
        job.kill()
    job = Job(terminal, KILLS)
    terminal.run(of_page("eoskafka offsets lag"))
    verify = of_page("eoskafka verify")
    # Asked too early, as a user does, and then until everything has been read.
    terminal.attempt(verify)
    terminal.attempt_until(verify, "exactly once: 100,000 in, 100,000 out", UNTIL_READ_S)
    proof = terminal.seconds()
    job.interrupt()
    terminal.run(of_page("eoskafka cluster purge"))
    terminal.run(of_page("rm -r"))
    return proof, pip


def provenance() -> dict[str, object]:
    """What a report was made with: `commit` with the day, `python` and `cores`."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"],
        text=True,
        check=True,
        capture_output=True,
    ).stdout.strip()
    return {
        "commit": f"{commit}, {datetime.now(timezone.utc).date()}",
        "python": ".".join(map(str, sys.version_info[:3])),
        "cores": os.cpu_count(),
    }


def main() -> None:
    check.current(WHEEL)
    kept = re.search(r'"checkpointLocation", "(.*)"', PAGE.read_text(encoding="utf-8"))
    assert kept
    if Path(kept[1]).exists():
        raise SystemExit(f"{kept[1]} is there, and the page's query would continue from it")
    with (
        tempfile.TemporaryDirectory(prefix="first-hour-") as folder,
        Terminal(Path(folder)) as terminal,
    ):
        proof, pip = follow(terminal)
    head = _HEAD.format(**provenance(), kills=KILLS, until_kill=UNTIL_KILL_S, proof=proof, pip=pip)
    REPORT.write_text(head + "\n".join(terminal.transcript).strip() + "\n```\n", encoding="utf-8")
    print(f"{proof:.0f} s to the proof: {REPORT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
