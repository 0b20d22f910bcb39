"""`Pipeline`: a copy of the sample project in notebooks/pipeline, and its updates."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml
from eoskafka.session import jar_path

from harness.archive import archive_options
from harness.faults import Faults, Point
from harness.flow import Flow
from harness.standalone import Submitted
from harness.waiting import until

_SAMPLE = Path(__file__).parents[3] / "notebooks" / "pipeline"
_MODULE = "transformations/payments.py"
_JAR = "/opt/eoskafka/eoskafka-0.1.0.jar"
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
UPDATE_S = 240.0


class Pipeline:
    """The sample project, from the input of a flow to its output.

    Args:
        folder: for the project, its storage, its log and its fault points.
        flow: its topics and its group.
        changes: texts of the sample's module, and what they are replaced by.
        remote: of a Spark Connect server that has the connector; None: each update starts one.
    """

    def __init__(
        self, folder: Path, flow: Flow, changes: dict[str, str], remote: str | None = None
    ) -> None:
        self.folder = folder
        self.log = folder / "updates.log"
        self.faults = Faults(folder / "faults")
        self.checkpoints = folder / "storage" / "_checkpoints"
        self._remote = remote
        shutil.copytree(_SAMPLE, folder, dirs_exist_ok=True)
        module = folder / _MODULE
        text = module.read_text(encoding="utf-8")
        prefix = f"transactional_id_prefix='eoskafka-{flow.name}', topic="
        for before, after in {"topic=": prefix, **changes}.items():
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        module.write_text(text, encoding="utf-8")
        spec = self._spec()
        spec["storage"] = f"file://{folder}/storage"
        self._write(spec)
        self._set_defaults()
        self.configure(servers=flow.servers, input=flow.input, output=flow.output, group=flow.group)

    def _spec(self) -> dict[str, Any]:
        text = (self.folder / "spark-pipeline.yml").read_text(encoding="utf-8")
        found: dict[str, Any] = yaml.safe_load(text)
        return found

    def _write(self, spec: dict[str, Any]) -> None:
        text = yaml.safe_dump(spec)
        (self.folder / "spark-pipeline.yml").write_text(text, encoding="utf-8")

    def configure(self, **settings: str) -> None:
        """Set what the sample's module reads."""
        spec = self._spec()
        for name, value in settings.items():
            assert f"spark.payments.{name}" in spec["configuration"]
            spec["configuration"][f"spark.payments.{name}"] = value
        self._write(spec)

    def _set_defaults(self) -> None:
        """The sample's settings of Spark, with this jar, and what only a test has."""
        file = self.folder / "conf" / "spark-defaults.conf"
        text = file.read_text(encoding="utf-8")
        assert text.count(_JAR) == 1
        jar = os.environ.get("EOSKAFKA_JAR") or str(jar_path())
        options = f"{_JVM} {archive_options()} -Dio.eoskafka.faults={self.faults.folder}"
        file.write_text(
            f"{text.replace(_JAR, jar)}"
            f"spark.driver.extraJavaOptions {options}\n"
            "spark.driver.memory 768m\n"
            "spark.ui.enabled false\n",
            encoding="utf-8",
        )

    def begin(self, *arguments: str) -> Submitted:
        """An update, with all of its processes in a session of their own."""
        program = str(Path(sys.executable).with_name("spark-pipelines"))
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        if self._remote:
            command = [program, "--remote", self._remote]
        else:
            command = [program]
            environment["SPARK_CONF_DIR"] = "conf"
        with self.log.open("ab") as out:
            child = subprocess.Popen(
                [*command, "run", *arguments],
                cwd=self.folder,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Submitted(child, self.log)

    def kill_at(self, point: Point) -> None:
        """An update that ends by SIGKILL when it has got to `point`."""
        self.faults.arm(point, "kill")
        update = self.begin()
        try:
            until(
                lambda: self.faults.taken(point) or not update.is_running(),
                f"an update at {point}",
                UPDATE_S,
            )
            assert update.is_running(), update.text()[-4_000:]
            self.faults.wait_taken(point)
        finally:
            update.kill()

    def update(self, *arguments: str) -> str:
        """An update until its end; what it has said if it has failed, and "" otherwise."""
        before = self.log.stat().st_size if self.log.exists() else 0
        update = self.begin(*arguments)
        try:
            failed = update.wait(UPDATE_S)
        finally:
            update.kill()
        return self.log.read_bytes()[before:].decode() if failed else ""

    def rows(self, warehouse: Path | None = None) -> list[tuple[str, str]]:
        """Keys and values in the table, in their order, by the log of Spark's file sink."""
        table = (warehouse or self.folder / "spark-warehouse") / "payments"
        log = table / "_spark_metadata"
        lines = [
            line
            for file in log.iterdir()
            if file.name.isdigit()
            for line in file.read_text(encoding="utf-8").splitlines()[1:]
        ]
        files = {Path(json.loads(line)["path"].removeprefix("file:")) for line in lines}
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return sorted((row["key"], row["value"]) for row in rows)
