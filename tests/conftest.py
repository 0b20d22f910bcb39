"""For all tests: logs of failed ones are kept, and JUnit's report says what they ran against."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from eoskafka.cluster import broker
from prove.behaviour import connector_digest, package_digest

ROOT = Path(__file__).parent.parent
KEPT_LOGS = ROOT / "build" / "test-logs"
# Spark's Python workers must see the packages of the environment that pytest runs in.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Who gives the tests another jar wants the commands to run it, too.
if "EOSKAFKA_JAR" in os.environ:
    os.environ.setdefault("EOSKAFKA_ALLOW_OTHER_JAR", "true")

_FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A JUnit report names the sources of each test, unless they are not this checkout's."""
    if config.option.xmlpath and "EOSKAFKA_JAR" not in os.environ:
        sources = [("connector", connector_digest(ROOT)), ("package", package_digest(ROOT))]
        for item in items:
            item.user_properties += sources


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def keep_logs(request: pytest.FixtureRequest) -> Iterator[list[Path]]:
    """A list of log files: if the test fails they are copied to build/test-logs/<test>/."""
    logs: list[Path] = []
    yield logs
    if not request.node.stash.get(_FAILED, False):
        return
    folder = KEPT_LOGS / re.sub(r"[^\w.-]+", "_", request.node.nodeid)
    for log in filter(Path.is_file, logs):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, folder / f"{log.parent.name}-{log.name}")
    print(f"logs of the failed test are kept in {folder}")


@pytest.fixture(scope="session", autouse=True)
def brokers_start_soon() -> Iterator[None]:
    """Brokers that tests start in this process map an archive of their classes."""
    without = broker.kafka_command

    def with_archive(jars: Sequence[Path]) -> list[str]:
        # Here, because most unit tests start no broker.
        from harness.archive import broker_archive_options

        return [*without(jars), *broker_archive_options().split()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker, "kafka_command", with_archive)
        yield
