"""The checks of what is in `dist/`: installed as users install it, and not from this checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from eoskafka import __version__
from eoskafka._jar import build_properties, sources_digest

_DEMO_RECORDS = 20_000


def environment_without_maven(folder: Path) -> dict[str, str]:
    """Variables without those of this checkout; a command `mvn`, made in `folder`, fails."""
    refusing = folder / "path" / "mvn"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho 'there is no Maven here' >&2\nexit 127\n")
    refusing.chmod(0o755)
    own = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME"}
    own |= {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"}
    kept = {key: value for key, value in os.environ.items() if key not in own}
    return {**kept, "PATH": os.pathsep.join([str(refusing.parent), kept.get("PATH", "")])}


class Machine:
    """A machine with Python and Java and without Maven, as far as a folder can be one.

    It has a virtual environment, an empty cache of Kafka's jars, and a command `mvn` that fails.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        venv.create(folder / "venv", with_pip=True)
        self._environment = environment_without_maven(folder)
        path = [str(self.bin), self._environment["PATH"]]
        self._environment["PATH"] = os.pathsep.join(path)
        self._environment["EOSKAFKA_CACHE"] = str(folder / "cache")

    def run(self, *command: str | Path) -> str:
        """Run a command of the environment outside the checkout and return its output."""
        first, *rest = map(str, command)
        print("  $", first, *rest, file=sys.stderr)
        done = subprocess.run(
            [str(self.bin / first), *rest],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.strip()


def current(file: Path) -> None:
    """End the program unless the wheel exists and was made of this checkout's present sources."""
    if not file.is_file():
        raise SystemExit(f"There is no {file}: run `make release` first")
    root = Path(__file__).parent.parent
    with zipfile.ZipFile(file) as archive:
        jar = f"eoskafka/jars/eoskafka-{__version__}.jar"
        with archive.open(jar) as content:
            built = build_properties(content)
        changed = [
            name
            for path in (root / "python" / "eoskafka").rglob("*")
            if path.suffix in (".py", ".json")
            and (name := path.relative_to(root / "python").as_posix())
            and (name not in archive.namelist() or archive.read(name) != path.read_bytes())
        ]
    if built["sources"] != sources_digest(root):
        changed.append(jar)
    if changed:
        raise SystemExit(
            f"{file} was made of other sources ({', '.join(sorted(changed)[:5])}): run "
            "`make release` first"
        )


def metadata(dist: Path) -> None:
    """The wheel and the sdist are such as the package index takes."""
    files = [*dist.glob("*.whl"), *dist.glob("*.tar.gz")]
    assert len(files) == 2, files
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    subprocess.run(command, stdout=sys.stderr, check=True)


def wheel(dist: Path, folder: Path) -> Machine:
    """The wheel in an empty environment: the command, the jar, and the demo with its proof."""
    machine = Machine(folder)
    (file,) = dist.glob("*.whl")
    machine.run("pip", "install", "--quiet", f"{file}[local,verify]")
    _require_jar(machine, dist)
    _require_sbom(machine, dist)
    output = machine.run(*("eoskafka", "demo", "--records", str(_DEMO_RECORDS), "--format", "json"))
    outcome = json.loads(output)
    assert outcome["exactly_once"], outcome
    print(f"  {outcome['verdict']}", file=sys.stderr)
    return machine


def environment(dist: Path, machine: Machine) -> None:
    """`dist/eoskafka-VERSION-python.cdx.json`: what pip has installed for the wheel."""
    output = dist / f"eoskafka-{__version__}-python.cdx.json"
    subprocess.run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "environment", str(machine.bin / "python")),
            *("--output-reproducible", "--output-format", "JSON", "--output-file", str(output)),
        ],
        stdout=sys.stderr,
        check=True,
    )
    found = json.loads(output.read_text(encoding="utf-8"))
    names = {each["name"] for each in found["components"]}
    assert {"eoskafka", "kafka-python", "pyspark"} <= names, names


def sdist(dist: Path, folder: Path) -> None:
    """The sdist in an empty environment, which must need no Maven and give the same jar."""
    machine = Machine(folder)
    (file,) = dist.glob("*.tar.gz")
    machine.run("pip", "install", "--quiet", file)
    _require_jar(machine, dist)
    _require_sbom(machine, dist)


def packages(repository: Path, machine: Machine) -> None:
    """`--packages` from the bundle, with spark-submit and an empty Ivy cache."""
    data = machine.folder / "kafka"
    started = machine.run("eoskafka", "cluster", "start", "--data-dir", data, "--format", "json")
    try:
        servers = json.loads(started)["bootstrap_servers"]
        machine.run("python", "-c", _TOPICS, servers)
        ivy = machine.folder / "ivy"
        machine.run(
            *("spark-submit", "--master", "local[2]"),
            *("--packages", f"io.eoskafka:eoskafka:{__version__}"),
            *("--repositories", repository.as_uri()),
            *("--conf", f"spark.jars.ivy={ivy}", "--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.plugins=io.eoskafka.EosKafkaPlugin"),
            *(Path(__file__).with_name("pipeline.py"), servers, machine.folder / "checkpoint"),
        )
    finally:
        machine.run("eoskafka", "cluster", "purge", "--data-dir", data)
    resolved = sorted(jar.name for jar in (ivy / "jars").iterdir())
    # Anything else would come into Spark's class path beside what is there.
    assert resolved == [f"io.eoskafka_eoskafka-{__version__}.jar"], resolved


_TOPICS = """
import sys
from kafka.admin import KafkaAdminClient, NewTopic
admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])
admin.create_topics([NewTopic("in", 4, 1), NewTopic("out", 4, 1)])
admin.close()
"""


def _require_jar(machine: Machine, dist: Path) -> None:
    assert machine.run("eoskafka", "--version") == __version__
    installed = Path(machine.run("eoskafka", "jar-path"))
    assert machine.folder in installed.parents, installed
    (published,) = dist.glob(f"maven/**/eoskafka-{__version__}.jar")
    assert installed.read_bytes() == published.read_bytes(), "the wheel has another jar"


def _require_sbom(machine: Machine, dist: Path) -> None:
    """The wheel's metadata have the list of what its jar contains, where PEP 770 has it."""
    (listed,) = machine.folder.glob("venv/lib/*/site-packages/eoskafka-*.dist-info/sboms/*.json")
    published = dist / f"eoskafka-{__version__}.cdx.json"
    assert listed.read_bytes() == published.read_bytes(), "the wheel has another list"


def empty(folder: Path) -> Path:
    """A folder with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
