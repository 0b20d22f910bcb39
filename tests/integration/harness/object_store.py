"""A server on this machine that speaks S3's protocol, and what Spark needs to write to it."""

from __future__ import annotations

import socket
import subprocess
import urllib.error
import urllib.request
import venv
from functools import cache
from pathlib import Path

from harness import maven
from harness.waiting import until

_MOTO = "5.2.5"
_BUILD = Path(__file__).parents[3] / "build"
_BUCKET = "checkpoints"
_START_S = 60.0
# Of Spark 4.2, and what that release of it was built with.
_HADOOP = "3.5.0"
_AWS = "2.35.4"

ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# For clients other than Hadoop's.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
}


@cache
def store_jars() -> str:
    """For `spark.jars`: Hadoop's S3A and the parts of Amazon's client that it needs."""
    found = maven.jars("object-store", f"hadoop.version={_HADOOP}", f"aws.version={_AWS}")
    return ",".join(map(str, found))


class ObjectStore:
    """moto's server with one bucket, in memory, until the block ends."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "object-store.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ObjectStore:
        command = [str(_python()), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(self._make_bucket, "the object store", _START_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def objects(self, prefix: str = "") -> list[str]:
        """The keys that there are, in their order."""
        said = self._call("GET", f"{_BUCKET}?list-type=2&prefix={prefix}").decode()
        return [part.partition("</Key>")[0] for part in said.split("<Key>")[1:]]

    def numbers(self, folder: str) -> list[int]:
        """The names of a folder's objects that are numbers."""
        names = [key.removeprefix(folder) for key in self.objects(folder)]
        return [int(name) for name in names if name.isdigit()]

    def read(self, key: str) -> bytes:
        """An object's content."""
        return self._call("GET", f"{_BUCKET}/{key}")

    def write(self, key: str, content: bytes) -> None:
        """Put an object in place."""
        self._call("PUT", f"{_BUCKET}/{key}", content)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._call("DELETE", f"{_BUCKET}/{key}")

    def _make_bucket(self) -> bool:
        try:
            self._call("PUT", _BUCKET)
        except OSError:
            return False
        return True

    def _call(self, method: str, path: str, content: bytes | None = None) -> bytes:
        # By default it would be a form's, which moto takes apart.
        kind = {"Content-Type": "application/octet-stream"}
        # Moto does not check it, but gives an object to nobody who has none.
        kind["Authorization"] = (
            "AWS4-HMAC-SHA256 Credential=test/20261126/us-east-1/s3/aws4_request"
        )
        asked = urllib.request.Request(f"{self.url}/{path}", content, kind, method=method)
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return bytes(answer.read())


def location(name: str) -> str:
    """Of a checkpoint, as Hadoop has it."""
    return f"s3a://{_BUCKET}/{name}"


def key_of(checkpoint: str) -> str:
    """What the keys of a checkpoint's objects begin with."""
    return checkpoint.removeprefix(f"s3a://{_BUCKET}/")


def settings(endpoint: str) -> dict[str, str]:
    """Of a session that writes there. It gives up sooner than by default: seconds, not minutes."""
    return {
        "spark.jars": store_jars(),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "test",
        "spark.hadoop.fs.s3a.secret.key": "test",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.attempts.maximum": "2",
        "spark.hadoop.fs.s3a.retry.limit": "2",
        "spark.hadoop.fs.s3a.retry.interval": "100ms",
        "spark.hadoop.fs.s3a.retry.throttle.limit": "2",
        "spark.hadoop.fs.s3a.threads.max": "8",
    }


@cache
def _python() -> Path:
    """Of an environment with moto, which asks for more than the tests' own environment has."""
    folder = _BUILD / f"moto-{_MOTO}"
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    if not stamp.exists():
        venv.create(folder, with_pip=True, clear=True)
        wanted = [f"moto[s3]=={_MOTO}", "flask", "flask-cors"]
        subprocess.run([str(python), "-m", "pip", "install", "-q", *wanted], check=True)
        stamp.touch()
    return python
