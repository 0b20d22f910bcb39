"""Through a real server of Spark Connect, which all tests share."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka.audit import read_committed
from eoskafka.cluster.local import free_ports
from eoskafka.session import jar_path
from harness import Flow
from harness.connect import Client, ConnectServer
from harness.faults import Point
from harness.versions import HAS_REAL_TIME_THROUGH_CONNECT
from kafka import TopicPartition
from kafka.admin import NewTopic

ROOT = Path(__file__).parents[2]
SECRET = "s3cretQx77ofTheUser"
RECORDS = 60
PER_BATCH = 20
# From Spark 4.3 on a function has a session of its own, which says so.
REFUSED = ("EOSKAFKA_WRITE_THROUGH_CONNECT", "EOSKAFKA_WRITE_OFF_THREAD")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture(scope="module")
def shared_client(server: ConnectServer) -> Iterator[Client]:
    with Client(server.url, server.folder / "client.log") as client:
        yield client


@pytest.fixture
def client(shared_client: Client, server: ConnectServer, keep_logs: list[Path]) -> Client:
    """One session for the tests that do not end it."""
    keep_logs += [server.log, server.folder / "client.log"]
    return shared_client


def spec(flow: Flow, **more: Any) -> dict[str, Any]:
    """Of a query, by the names of `Source` and `Sink`."""
    return {
        "source": {
            "bootstrap_servers": flow.servers,
            "subscribe": flow.input,
            "group_id": flow.group,
            "starting_offsets": "earliest",
            "max_offsets_per_trigger": PER_BATCH,
        },
        "sink": sink(flow),
        "checkpoint": str(flow.checkpoint),
        **more,
    }


def sink(flow: Flow) -> dict[str, Any]:
    """Its sink alone."""
    return {
        "bootstrap_servers": flow.servers,
        "topic": flow.output,
        "transactional_id_prefix": f"eoskafka-{flow.name}",
    }


def ask(client: Client, what: str, **of: Any) -> dict[str, Any]:
    """What a client says when it had no error."""
    answer = client.ask(what, **of)
    assert answer["error"] == ""
    return answer


def test_a_client_is_told_that_its_server_has_the_connector(client: Client) -> None:
    ask(client, "check")


@pytest.mark.slow
def test_a_jar_that_a_client_adds_is_refused_by_name(flow: Flow, tmp_path: Path) -> None:
    bare = {"spark.jars": "", "spark.plugins": ""}
    with (
        ConnectServer(tmp_path, bare) as server,
        Client(server.url, tmp_path / "client.log") as client,
    ):
        answer = client.ask("check")
        assert "has neither the connector's jar nor its plugin" in answer["error"]
        answer = client.ask("add-jar", jar=str(jar_path()))
        assert "was started without the connector's plugin" in answer["error"]
        flow.produce(RECORDS)
        answer = client.ask("copy", **spec(flow))
        assert answer.get("condition") == "EOSKAFKA_JAR_IN_SESSION"
        assert "ConfigurationError" in answer["classes"]
    assert flow.outputs() == []


def _settings_of_page() -> dict[str, str]:
    """What docs/connect.md tells a server's administrator to set against secrets."""
    lines = (ROOT / "conf" / "spark-defaults" / "connect.conf").read_text("utf-8").splitlines()
    found = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    return {name: value for name, value in found.items() if "redaction" in name}


@pytest.mark.slow
@pytest.mark.parametrize("is_set", [True, False])
def test_no_secret_of_a_client_is_shown_by_a_server_with_these_settings(
    flow: Flow, tmp_path: Path, is_set: bool
) -> None:
    (port,) = free_ports(1)
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        **(_settings_of_page() if is_set else {}),
    }
    # Quoted and escaped, as a JAAS line has it. No broker asks for it here.
    jaas = f'a.Module required username="u" password="{SECRET}\\"{SECRET}";'
    secret = {"ssl.key.password": SECRET, "sasl.jaas.config": jaas}
    of = spec(flow)
    of["source"]["kafka"] = of["sink"]["kafka"] = secret
    flow.produce(RECORDS)
    with (
        ConnectServer(tmp_path, settings) as server,
        Client(server.url, tmp_path / "client.log") as client,
    ):
        ask(client, "copy", **of)
        ask(client, "batch", rows=5, sink=of["sink"], back={**of["source"], "group_id": None})
        shown = [server.log.read_text("utf-8")]
        for page in ("connect", "jobs", "stages", "SQL", "StreamingQuery", "environment"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}/", timeout=30) as answer:
                shown.append(answer.read().decode())
    shown += [file.read_text("utf-8") for file in events.rglob("*") if file.is_file()]
    text = "\n".join(shown)
    assert "SparkListenerConnectOperationStarted" in text
    assert "ssl.key.password" in text or is_set
    # Without them Spark does show it: otherwise the search would be in vain.
    assert (SECRET in text) is not is_set


def test_a_query_and_all_that_shows_its_progress(client: Client, flow: Flow) -> None:
    flow.produce(RECORDS)
    answer = ask(client, "shown", **spec(flow))
    flow.assert_exactly_once()
    assert answer["board"] == [
        {
            "batches": RECORDS // PER_BATCH,
            "rows": RECORDS,
            "transactions_committed": 2 * RECORDS // PER_BATCH,
            "transactions_aborted": 0,
            "fenced_attempts": 0,
        }
    ]
    (line,) = answer["prometheus"]
    assert line.endswith(f" {RECORDS}.0")
    assert "rows/s" in answer["live"]
    assert answer["plots"] == 3


def test_a_query_that_fails_raises_the_class_of_its_condition(client: Client, flow: Flow) -> None:
    flow.produce(RECORDS)
    ask(client, "copy", **spec(flow))
    flow.produce(RECORDS)
    with flow.admin() as admin:
        admin.delete_records({TopicPartition(flow.input, 0): RECORDS - 1})
    answer = client.ask("copy", **spec(flow))
    assert {"DataLossError", "StreamingQueryException"} <= {*answer["classes"]}
    assert answer.get("condition") == "EOSKAFKA_DATA_LOSS"


def test_a_batch_is_written_and_read(client: Client, flow: Flow) -> None:
    back = {"bootstrap_servers": flow.servers, "subscribe": flow.output}
    answer = ask(client, "batch", rows=5, sink=sink(flow), back=back)
    assert answer["values"] == ["0", "1", "2", "3", "4"]


def test_rows_that_fail_are_dead_letters(client: Client, flow: Flow) -> None:
    dead = f"{flow.name}-dead"
    with flow.admin() as admin:
        admin.create_topics([NewTopic(dead, 1, 1)])
    flow.produce(RECORDS)
    ask(client, "dead-letters", **spec(flow, dead=dead))
    letters = sorted(r.value or b"" for r in read_committed(flow.servers, dead))
    assert letters == sorted(b"v%d" % n for n in range(0, RECORDS, 10))
    rows = sorted(r.value or b"" for r in flow.outputs())
    assert rows == sorted(b"v%d!" % n for n in range(RECORDS) if n % 10)


@pytest.mark.slow
@pytest.mark.skipif(
    not HAS_REAL_TIME_THROUGH_CONNECT, reason="a client cannot ask for it before Spark 4.2"
)
def test_real_time_mode(client: Client, flow: Flow) -> None:
    flow.produce(RECORDS)
    how = spec(flow)
    del how["source"]["max_offsets_per_trigger"]
    assert ask(client, "real-time", **how)["batches"]
    flow.assert_exactly_once()


# ---- foreachBatch: its function runs in a process of the server's, as another client

WRITE_ID = "out"


def rerun_last(flow: Flow) -> None:
    """Have Spark run the last batch again, as after a crash that came before Spark logged it."""
    commits = flow.checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink()


@pytest.mark.parametrize(
    "how",
    [
        "frame",
        pytest.param("sql", marks=pytest.mark.slow),
        pytest.param("thread", marks=pytest.mark.slow),
    ],
)
def test_a_write_of_foreach_batch_takes_effect_once(client: Client, flow: Flow, how: str) -> None:
    flow.produce(RECORDS)
    ask(client, "foreach-batch", how=how, **spec(flow))
    flow.assert_exactly_once()
    rerun_last(flow)
    ask(client, "foreach-batch", how=how, **spec(flow))
    flow.assert_exactly_once()


@pytest.mark.slow
def test_two_clients_write_under_one_name_in_queries_of_their_own(
    client: Client, server: ConnectServer, flow: Flow, tmp_path: Path
) -> None:
    flows = [flow, Flow(flow.servers, tmp_path / "other")]
    with Client(server.url, server.folder / "client.log") as second:
        for each, of in zip((client, second), flows, strict=True):
            of.produce(RECORDS)
            named = spec(of)
            named["sink"]["write_id"] = WRITE_ID
            each.begin("foreach-batch", how="frame", **named)
        for each, of in zip((client, second), flows, strict=True):
            assert each.answer()["error"] == ""
            of.assert_exactly_once()


@pytest.mark.parametrize(
    "how",
    ["collected", *(pytest.param(h, marks=pytest.mark.slow) for h in ("checkpointed", "root"))],
)
def test_rows_that_do_not_show_their_batch_are_refused(
    client: Client, flow: Flow, how: str
) -> None:
    flow.produce(RECORDS)
    answer = client.ask("foreach-batch", how=how, **spec(flow))
    assert answer.get("condition") in REFUSED, answer
    assert "PlanError" in answer["classes"]
    assert flow.outputs() == []
    flow.assert_nothing_is_open()


def test_a_session_with_a_function_has_no_jobs_and_another_session_has(
    client: Client, flow: Flow
) -> None:
    """A function may go on in its process when its query has ended, so its view counts too."""
    flow.produce(RECORDS)
    answer = client.ask("foreach-batch", how="late", **spec(flow))
    assert answer.get("condition") == "EOSKAFKA_WRITE_THROUGH_CONNECT"
    answer = client.ask("job", rows=3, sink=sink(flow))
    assert answer.get("condition") == "EOSKAFKA_WRITE_THROUGH_CONNECT"
    assert flow.outputs() == []
    ask(client, "job", apart=True, rows=3, sink=sink(flow))
    assert len(flow.outputs()) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        *("before-run", "before-flush", "after-flush", "before-decision"),
        *("after-decision", "half-rolled-forward", "before-log"),
    ],
)
def test_a_server_killed_in_a_write_of_foreach_batch_loses_and_duplicates_nothing(
    server: ConnectServer, flow: Flow, keep_logs: list[Path], point: Point
) -> None:
    """The last test of the file: it ends the session that the others share."""
    keep_logs.append(server.log)
    flow.produce(RECORDS)
    server.faults.arm(point, "kill")
    with Client(server.url, server.folder / "client.log") as first:
        first.begin("foreach-batch", how="frame", **spec(flow))
        # Its function may need several attempts to start.
        server.faults.wait_taken(point, 120)
        server.wait_killed()
    server.restart()
    with Client(server.url, server.folder / "client.log") as second:
        ask(second, "foreach-batch", how="frame", **spec(flow))
    flow.assert_exactly_once()
