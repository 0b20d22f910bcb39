"""Environments with another Spark version, for the matrix and for checkpoints that change Spark."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from eoskafka import delta, sparks

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "matrix"


def python_of(version: str) -> Path:
    """The interpreter of an environment with this Spark, made if it is not there."""
    folder = FOLDER / version
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing Spark {version}", file=sys.stderr, flush=True)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    packages = ["-e", f"{ROOT}[test]", f"pyspark=={version}"]
    if newest := delta.newest_for(sparks.line(version)):
        packages += ["deltalake>=1.6,<2", f"delta-spark=={newest}"]
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python
