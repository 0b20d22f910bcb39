"""Delta tables: as a source, whose rows come out once, and as the static side of a join."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Application, Flow, StartApplication
from harness.delta import delta_jars
from harness.transforms import TABLE
from kafka.structs import OffsetAndMetadata

# A batch of it takes Delta some seconds.
pytestmark = pytest.mark.slow

ROWS = 100

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The few rows of a test are below it, many more are above.
    "spark.sql.autoBroadcastJoinThreshold": "30000",
}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Where the table is."""
    return str(tmp_path / "table")


@pytest.fixture
def start(start_application: StartApplication, table: str) -> Callable[[], Application]:
    """Starts an application that knows Delta."""
    # Not as keywords: a setting's name may have an underscore.
    settings = {**_DELTA, TABLE: table, "spark.jars": delta_jars()}
    return lambda: start_application("local[2]", settings)


def test_a_source_whose_drivers_are_killed(
    start: Callable[[], Application], flow: Flow, table: str
) -> None:
    one_file_a_batch = {"origin": "delta", "path": table, "maxFilesPerTrigger": 1}
    application = start()
    application.write(ROWS, form="delta", path=table)
    flow.start(application, **one_file_a_batch).wait_done()
    application.write(ROWS, start=ROWS, form="delta", path=table)
    application.faults.arm("after-decision", "kill")
    flow.start(application, **one_file_a_batch)
    application.faults.wait_taken("after-decision")
    application.kill()
    application = start()
    application.write(ROWS, start=2 * ROWS, form="delta", path=table)
    flow.start(application, **one_file_a_batch).wait_done()
    flow.assert_nothing_is_open()
    written = sorted(int((record.value or b"").rstrip(b"!")) for record in flow.outputs())
    assert written == [*range(3 * ROWS)]


def test_a_join_whose_strategy_changes_between_batches_changes_its_scope(
    start: Callable[[], Application], flow: Flow, table: str
) -> None:
    def scopes() -> set[str]:
        return {offset.metadata.split(":")[2] for offset in committed()}

    def committed() -> list[OffsetAndMetadata]:
        with flow.admin() as admin:
            return list(admin.list_group_offsets([flow.group])[flow.group].values())

    application = start()
    application.write(3 * ROWS, form="delta", path=table)
    flow.produce(ROWS)
    query = flow.start(application, transform="in_table", interval="200 milliseconds")
    query.wait_batches(1)
    flow.wait_committed()
    assert scopes() == {"t"}, "a broadcast join is narrow"
    application.write(100_000, start=10_000, form="delta", path=table)
    flow.produce(ROWS)
    flow.wait_committed()
    assert scopes() == {"e"}, "a join of sorted rows is not"
    application.faults.arm("after-decision", "kill")
    flow.produce(ROWS)
    application.faults.wait_taken("after-decision")
    application.kill()
    application = start()
    flow.start(application, transform="in_table").wait_done()
    flow.assert_exactly_once()
