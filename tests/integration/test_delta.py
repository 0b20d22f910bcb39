"""Delta tables: between two topics, as a source, with their changes, and in a join."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from eoskafka.audit import compare
from eoskafka.cli import app
from harness import Application, Flow, StartApplication
from harness.delta import delta_jars
from harness.flow import exclaimed
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
    one_file_a_batch: dict[str, Any] = {"origin": "delta", "path": table, "maxFilesPerTrigger": 1}
    application = start()
    application.write(ROWS, form="delta", path=table)
    flow.start(application, **one_file_a_batch).wait_done()
    application.write(ROWS, start=ROWS, form="delta", path=table)
    flow.reach(application, "after-decision", "kill", **one_file_a_batch)
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


def test_from_topic_to_table_to_topic_across_kills(
    start: Callable[[], Application], flow: Flow, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first query by Delta's log, with its offsets in the group too; the second by ours."""
    into: dict[str, Any] = {"form": "delta", "sink": {"path": table}, "driver": "-into"}
    few: dict[str, Any] = {"maxOffsetsPerTrigger": ROWS, "interval": "0 seconds", **into}
    flow.produce(10 * ROWS)
    application = start()
    flow.start(application, **few).wait_batches(2)
    application.kill()
    application = start()
    flow.start(application, **few).wait_batches(5)
    application.kill()
    application = start()
    flow.start(application, **into).wait_done()
    assert flow.committed() == flow.ends()
    flow.reach(application, "after-decision", "kill", origin="delta", path=table, transform="as_is")
    application.kill()
    application = start()
    flow.start(application, origin="delta", path=table, transform="as_is").wait_done()
    flow.assert_nothing_is_open()
    # The table is read by delta-rs.
    proof = ["--expected", table, "--by", "digest", "--bootstrap-servers", flow.servers]
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["verify", "--output", flow.output, *proof]))
    assert ended.value.code == 0, capsys.readouterr()
    assert compare(flow.inputs(), flow.outputs(), exclaimed).is_exactly_once


def test_the_changes_of_a_table_come_out_once(
    start: Callable[[], Application], flow: Flow, table: str
) -> None:
    rows = {"key": [f"k{n}" for n in range(ROWS)], "value": [str(n) for n in range(ROWS)]}
    write_deltalake(table, pa.table(rows), configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(table).update(predicate="key = 'k5'", updates={"value": "'1005'"})
    DeltaTable(table).delete("key = 'k7'")
    feed: dict[str, Any] = {
        "origin": "delta",
        "path": table,
        "readChangeFeed": "true",
        "startingVersion": 0,
    }
    application = start()
    flow.reach(application, "after-decision", "kill", **feed)
    application.kill()
    application = start()
    flow.start(application, **feed).wait_done()
    flow.assert_nothing_is_open()
    written = sorted(int((record.value or b"").rstrip(b"!")) for record in flow.outputs())
    # As it was before and after the change, and as it was when it was removed.
    assert written == sorted([*range(ROWS), 5, 1005, 7])


def test_a_function_writes_a_batch_once_to_kafka_and_to_a_table(
    start: Callable[[], Application], flow: Flow, table: str
) -> None:
    """As docs/foreach-batch.md says it is done; the batch runs again after the kill."""
    into_both: dict[str, Any] = {"form": "and_to_delta"}
    flow.produce(ROWS)
    application = start()
    flow.reach(application, "after-decision", "kill", **into_both)
    application.kill()
    assert DeltaTable(table).to_pyarrow_table().num_rows == ROWS
    application = start()
    flow.start(application, **into_both).wait_done()
    flow.produce(ROWS)
    flow.start(application, **into_both).wait_done()
    flow.assert_exactly_once()
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2 * ROWS
