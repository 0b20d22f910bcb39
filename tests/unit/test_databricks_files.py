"""conf/databricks: the files agree with one another, with the package, and with the job."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from eoskafka import __version__
from eoskafka.session import PLUGIN_CLASS, REDACTED, REDACTION

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "conf" / "databricks"
SCRIPT = FOLDER / "install-eoskafka.sh"


@pytest.fixture
def bundle() -> Any:
    return yaml.safe_load((FOLDER / "databricks.yml").read_text(encoding="utf-8"))


@pytest.fixture
def compute(bundle: Any) -> Any:
    (cluster,) = bundle["resources"]["jobs"]["payments"]["job_clusters"]
    return cluster["new_cluster"]


def run_script(volume: Path, target: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "EOSKAFKA_VOLUME": str(volume), "EOSKAFKA_TARGET": str(target)}
    return subprocess.run([SCRIPT], env=env, capture_output=True, text=True, check=False)


def test_the_compute_has_what_the_connector_needs(compute: Any) -> None:
    assert compute["spark_conf"] == {"spark.plugins": PLUGIN_CLASS, REDACTION: REDACTED}
    assert compute["init_scripts"][0]["volumes"]["destination"].endswith(SCRIPT.name)
    assert compute["data_security_mode"] == "SINGLE_USER"


def test_the_policy_asks_for_the_same_compute(compute: Any) -> None:
    policy = json.loads((FOLDER / "policy.json").read_text(encoding="utf-8"))
    for key, value in compute["spark_conf"].items():
        assert policy[f"spark_conf.{key}"] == {"type": "fixed", "value": value}
    for key in ("data_security_mode", "runtime_engine"):
        assert policy[key] == {"type": "fixed", "value": compute[key]}
    assert compute["spark_version"] in policy["spark_version"]["values"]
    script = policy["init_scripts.0.volumes.destination"]["value"]
    volume = policy["spark_env_vars.EOSKAFKA_VOLUME"]["value"]
    assert script == f"{volume}/{SCRIPT.name}"


def test_the_job_is_there_and_takes_these_parameters(bundle: Any) -> None:
    (task,) = bundle["resources"]["jobs"]["payments"]["tasks"]
    job = (FOLDER / task["spark_python_task"]["python_file"]).resolve()
    known = set(re.findall(r'add_argument\(\s*"(--[a-z]+)"', job.read_text(encoding="utf-8")))
    assert job.parent in {(FOLDER / path).resolve() for path in bundle["sync"]["paths"]}
    given = {each.partition("=")[0] for each in task["spark_python_task"]["parameters"]}
    assert given <= known
    (wheel,) = (library["whl"] for library in task["libraries"])
    assert wheel.endswith(f"/eoskafka-{__version__}-py3-none-any.whl")


def test_the_script_copies_the_jar(tmp_path: Path) -> None:
    volume, target = tmp_path / "volume", tmp_path / "jars"
    volume.mkdir()
    target.mkdir()
    (volume / "eoskafka-0.1.0.jar").write_bytes(b"jar")
    (volume / "eoskafka-0.1.0-py3-none-any.whl").write_bytes(b"wheel")
    assert run_script(volume, target).returncode == 0
    assert [file.name for file in target.iterdir()] == ["eoskafka-0.1.0.jar"]


@pytest.mark.parametrize("jars", [0, 2])
def test_the_script_fails_unless_there_is_one_jar(jars: int, tmp_path: Path) -> None:
    for number in range(jars):
        (tmp_path / f"eoskafka-0.{number}.0.jar").write_bytes(b"jar")
    result = run_script(tmp_path, tmp_path)
    assert result.returncode == 1
    assert "There must be exactly one eoskafka-*.jar" in result.stderr
