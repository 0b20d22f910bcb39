"""What a result was made with."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from datetime import datetime, timezone
from typing import Any

import psutil
import pyspark
from eoskafka._jar import jar_file
from mutations.run import DIGEST_CHARS, ROOT, git, head

from prove.behaviour import connector_digest


def connector() -> str:
    """A digest of the sources that the jar is built from, without comments and messages."""
    return connector_digest(ROOT)[:DIGEST_CHARS]


def provenance() -> dict[str, Any]:
    """Commit and whether it was clean, digests, versions, machine and date."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    changes = git("status", "--porcelain", "--", "jvm-shim", "python", "tests").strip()
    return {
        "commit": head(),
        "is_clean": not changes,
        "connector": connector(),
        "jar": hashlib.sha256(jar_file().read_bytes()).hexdigest()[:DIGEST_CHARS],
        "spark": pyspark.__version__,
        "java": java.partition("\n")[0],
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "kernel": platform.release(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }
