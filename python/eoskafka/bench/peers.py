"""Who takes part in a benchmark, with which settings, and the jars of those that need some."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eoskafka import _jar, _spec, sparks
from eoskafka.bench.errors import BenchError

DEFAULTS, OURS = "defaults", "eoskafka's settings"
# By the line of Spark that runs, the release of its built-in connector: the newest one that Maven
# Central has.
BUILT_IN_RELEASES = {(3, 5): "3.5.7", (4, 0): "4.0.2", (4, 1): "4.1.2", (4, 2): "4.2.0"}


@dataclass(frozen=True)
class Peer:
    """Who copies records from topic to topic.

    Attributes:
        name: in reports.
        guarantee: what a retry or a restart may do to its output.
        settings: of its Kafka clients: its own defaults, or those of eoskafka.
        format: Spark's name of its source and sink; None for one that is not in Spark.
        program: what `PeerProgram` (jvm-shim/bench-programs) calls it, or `flink`, which has a
            module of its own (jvm-shim/bench-flink); None for one in Spark.
        real_time: whether it runs in Spark's real-time mode.
    """

    name: str
    guarantee: str
    settings: str = DEFAULTS
    format: str | None = None
    program: str | None = None
    real_time: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is eoskafka, in any mode."""
        return self.format == EOSKAFKA.format

    @property
    def label(self) -> str:
        """Name, mode and settings; eoskafka's are its defaults."""
        settings = self.settings if self.settings == OURS else ""
        return ", ".join(filter(None, (self.name, "real-time" * self.real_time, settings)))

    @property
    def id(self) -> str:
        """For names of topics, groups and folders."""
        return self.label.replace("'", "").replace(",", "").replace(" ", "-").lower()

    def clients(self) -> dict[str, dict[str, str]]:
        """What is set for its `consumer` and `producer`, by Kafka's names."""
        table = _spec.read("clients.json") if self.settings == OURS else {}
        return {
            client: {name: str(value) for name, value in table.get(client, {}).items()}
            for client in ("consumer", "producer")
        }


def _twice(peer: Peer) -> list[Peer]:
    return [peer, dataclasses.replace(peer, settings=OURS)]


BUILT_IN = Peer("built-in", "at-least-once", format="kafka")
EOSKAFKA = Peer("eoskafka", "exactly-once", format="eoskafka")
STREAMS = Peer("Kafka Streams", "exactly-once", program="streams")
FLINK = Peer("Flink", "exactly-once", program="flink")
LOOP = Peer("Java loop", "exactly-once", program="loop")
# Only where latency is measured.
REAL_TIME = dataclasses.replace(EOSKAFKA, real_time=True)
BUILT_IN_REAL_TIME = dataclasses.replace(BUILT_IN, real_time=True)
# Every one twice, with its defaults and with our settings; ours are our defaults.
PEERS = (*_twice(BUILT_IN), *_twice(STREAMS), *_twice(FLINK), *_twice(LOOP), EOSKAFKA)

# Not peers: the halves of a pipeline, which say what any of them could reach.
READ_ONLY = Peer("read only", "", OURS, program="read")
WRITE_ONLY = Peer("write only", "", OURS, program="write")
LIMITS = (READ_ONLY, WRITE_ONLY)


def missing() -> str | None:
    """Why peers other than eoskafka cannot be run from here; None if they can."""
    if _jar.checkout() is None:
        return "they are built from a checkout of eoskafka, and this is an installed package"
    if shutil.which("mvn") is None:
        return "they are built with Maven, and there is no command mvn"
    return None


def peer_jars() -> list[Path]:
    """Jars for a session's `spark.jars`: Spark's built-in connector with a stand-in for its token
    module, and kafka-clients under its own name.

    Built with Maven, in a checkout only.

    Raises:
        BenchError: there is no checkout, no Maven, or the build failed.
    """
    release = _built_in_release()
    folder = f"peers-{release}"
    target = _built(
        "bench-peers",
        f"-Dspark.version={release}",
        f"-Dscala.binary.version={sparks.scala(release)}",
        f"-Dpeers.folder={folder}",
    )
    return sorted((target / folder).glob("*.jar"))


def _built_in_release() -> str:
    import pyspark

    try:
        return BUILT_IN_RELEASES[sparks.line(pyspark.__version__)]
    except KeyError:
        raise BenchError(
            f"Maven Central has no built-in connector for Spark {pyspark.__version__}"
        ) from None


def program_jars(peer: Peer) -> list[Path]:
    """The class path of a peer that is not in Spark. Built, and raises, as `peer_jars`.

    Flink's is another one, because its connector has kafka-clients of another version.
    """
    if peer.program == FLINK.program:
        return sorted((_built("bench-flink") / "flink").glob("*.jar"))
    return sorted((_built("bench-programs") / "programs").glob("*.jar"))


def delay_line_jars() -> list[Path]:
    """The class path of `DelayLine`. Built, and raises, as `peer_jars`."""
    return [_built("bench-programs") / "programs" / "eoskafka-bench-programs.jar"]


@cache
def _built(module: str, *settings: str) -> Path:
    """The folder that Maven has built a module into."""
    root = _jar.checkout()
    if (reason := missing()) is not None or root is None:
        raise BenchError(
            f"the benchmark has peers that cannot be run here: {reason}. Clone the repository and "
            "run `make bench` there."
        )
    # Each time: Maven compiles only what has changed, and a stale peer would spoil the figures.
    command = [
        *(shutil.which("mvn") or "mvn", "-q", "-B", "-f", str(root / "jvm-shim" / "pom.xml")),
        *("-pl", module, "-am", "package", "-DskipTests", "-Dstyle.color=never"),
        *settings,
    ]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise BenchError(
            f"Maven could not build the peers (exit code {done.returncode}, see above)"
        )
    return root / "jvm-shim" / module / "target"
