"""The walk-through: it runs, and the executed notebook is the one that its source makes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from harness.delta import delta_jars
from matrix.run import run_tests

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RUN_S = 560


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Delta's jar is there already, so that Spark need not fetch it."""
    defaults = tmp_path / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text(
        f"spark.jars {delta_jars()}\nspark.driver.host 127.0.0.1\n", encoding="utf-8"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults.parent))
    monkeypatch.delenv("EOSKAFKA_SERVERS", raising=False)


def test_the_executed_notebook_is_its_sources() -> None:
    made = runpy.run_path(str(NOTEBOOKS / "make_ipynb.py"))
    wanted = made["notebook"]()
    found = nbformat.read(NOTEBOOKS / "walkthrough.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    assert [(c.cell_type, c.source) for c in found.cells] == [
        (c.cell_type, c.source) for c in wanted.cells
    ], "run python notebooks/make_ipynb.py"
    outputs = [output for cell in found.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    pictures = [o for o in outputs if "image/png" in o.get("data", {})]
    assert len(pictures) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("no_network")
def test_the_notebook_runs(tmp_path: Path) -> None:
    made = runpy.run_path(str(NOTEBOOKS / "make_ipynb.py"))
    made["execute"](made["notebook"](), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("no_network")
def test_its_source_runs_as_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(NOTEBOOKS / "walkthrough.py")],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg", "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert done.stdout.count("exactly once:") == 3


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("version", ["4.0.5", "4.1.4"])
def test_its_source_runs_on_the_spark_of_databricks_runtimes(version: str) -> None:
    """Runtimes 17.3 and 18 have these lines of Spark."""
    test = f"{Path(__file__).name}::{test_its_source_runs_as_a_program.__name__}"
    found = run_tests(version, [test], with_slow=True)
    assert (found["passed"], found["failed"], found["skipped"]) == (1, [], {})
