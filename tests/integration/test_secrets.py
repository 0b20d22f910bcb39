"""Secrets: queries, refused log-ins and commands that have them show them nowhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka.cluster.local import free_ports
from harness import Application, Flow
from harness.log_ins import (
    ALLOWED_URLS,
    PLAIN_PASSWORD,
    QUOTED_PASSWORD,
    VARIABLE,
    LogIns,
    plain_jaas,
)
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_TOKEN = "t0ken-Xc84-of-the-user"
_KEYSTORE = "k3ystore-Dv35-of-the-user"
_KEY = "k3y-Wn19-of-the-user"
_ANOTHER_SECRET = "s3cret-Ph72-of-the-user"
# What is given where another one would be right; a refused secret is one, too.
_WRONG = "wr0ng-Nc28\"+'Ud49-of-the-user"
_WRONG_ON_EXECUTORS = "wr0ng-Jx53-of-the-user"
_BROKEN_KEY = (
    "-----BEGIN PRIVATE KEY-----\nYnIwa2VuUXo5NmtleU9mVGhlVXNlcg==\n-----END PRIVATE KEY-----"
)
_LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""
# Each place, and something else of the queries that must be found there: the search is in vain
# where nothing of them is.
PLACES = {
    "pages of the UI": "eoskafka",
    "the event log": "SparkListenerSQLExecutionStart",
    "the driver's log": "sasl.jaas.config = [hidden]",
    "the executors' logs": "sasl.jaas.config = [hidden]",
    "progress reports": "numInputRows",
    "plans": "eoskafka",
    "errors": "EOSKAFKA_LOG_IN_FAILED",
    "commands": "that the log-in and the brokers' certificate are valid",
    "the checkpoints": "eoskafka-identity.json",
    "topics": "eoskafka",
}


class Secrets:
    """What must be found nowhere: pieces that no way of quoting and escaping changes."""

    def __init__(self, log_ins: LogIns) -> None:
        self._log_ins = log_ins

    def pieces(self) -> list[str]:
        """At least eight letters and digits each."""
        given = [QUOTED_PASSWORD, _TOKEN, _KEYSTORE, _KEY, _ANOTHER_SECRET, _WRONG]
        given += [_WRONG_ON_EXECUTORS, _BROKEN_KEY.splitlines()[1], *self._log_ins.secrets()]
        found = {each for text in given for each in re.findall(r"[A-Za-z0-9-]{8,}", text)}
        # A piece of a token that is the same for every token says nothing.
        header = {each.split(".")[0] for each in self._log_ins.tokens.issued}
        return sorted(found - header)


def _everything(log_ins: LogIns) -> dict[str, str]:
    """A log-in that works, with secrets beside it that it does not need."""
    key = log_ins.clients["mutual-inline"]
    return log_ins.options(
        "plain-quoted",
        **{
            "sasl.jaas.config": plain_jaas(QUOTED_PASSWORD, f'token="{_TOKEN}"'),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key["ssl.keystore.key"],
            "ssl.keystore.certificate.chain": key["ssl.keystore.certificate.chain"],
            "ssl.keystore.password": _KEYSTORE,
            "ssl.truststore.password": _KEYSTORE,
            "ssl.key.password": _KEY,
            "sasl.oauthbearer.client.credentials.client.secret": _ANOTHER_SECRET,
        },
    )


def _refused(log_ins: LogIns) -> dict[str, dict[str, str]]:
    """Log-ins that fail, on the driver, and the last one on executors."""
    unquoted = plain_jaas("").replace('""', f'"{QUOTED_PASSWORD}"')
    jwt = {"sasl.oauthbearer.client.credentials.client.secret": _ANOTHER_SECRET}
    return {
        "password": log_ins.options("plain-quoted", **{"sasl.jaas.config": plain_jaas(_WRONG)}),
        "unquoted": log_ins.options("plain-quoted", **{"sasl.jaas.config": unquoted}),
        "key": log_ins.options("mutual-inline", **{"ssl.keystore.key": _BROKEN_KEY}),
        "store": log_ins.options("mutual-pkcs12", **{"ssl.keystore.password": _KEYSTORE}),
        "oauth": log_ins.options("oauth", **jwt),
        "executors": log_ins.options("plain-variable"),
    }


@pytest.fixture(scope="module")
def log_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogIns]:
    """As the shared one, without a Spark session in this process."""
    with LogIns(tmp_path_factory.mktemp("log-ins")).running() as found:
        yield found


@pytest.fixture(scope="module")
def shown(log_ins: LogIns, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What is to be seen at each of `PLACES` after everything has run."""
    folder = tmp_path_factory.mktemp("secrets")
    (port,) = free_ports(1)
    driver_log, events = folder / "driver.log", folder / "events"
    events.mkdir()
    log4j = folder / "driver-log4j2.properties"
    log4j.write_text(_LOG4J.format(file=driver_log), encoding="utf-8")
    allowed = f"-Dorg.apache.kafka.{ALLOWED_URLS}={log_ins.tokens.url}"
    application = Application(folder / "application", "local-cluster[2,1,1024]")
    # Beside those that it has.
    given = application._settings
    given["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile={log4j} {allowed}"
    given["spark.executor.extraJavaOptions"] += f" {allowed}"
    given |= {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        f"spark.executorEnv.{VARIABLE}": _WRONG_ON_EXECUTORS,
    }
    found: dict[str, list[str]] = {place: [] for place in PLACES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, PLAIN_PASSWORD)
        with application:
            application.wait_executors(2)
            _run(application, log_ins, folder, found)
            found["pages of the UI"] += _pages(f"http://127.0.0.1:{port}")
    found["the event log"] += _files(events)
    found["the driver's log"] += [driver_log.read_text("utf-8"), application.log.read_text("utf-8")]
    found["the executors' logs"] += [
        each.read_text("utf-8", "replace") for each in application.logs()[1:]
    ]
    found["the checkpoints"] += _files(folder / "checkpoints")
    found["topics"] += _topics(log_ins.cluster.bootstrap_servers)
    return {place: "\n".join(texts) for place, texts in found.items()}


def _run(
    application: Application, log_ins: LogIns, folder: Path, found: dict[str, list[str]]
) -> None:
    """Queries that work, queries whose log-in is refused, and commands."""
    servers = log_ins.cluster.bootstrap_servers
    works = {"everything": _everything(log_ins), "oauth": log_ins.options("oauth")}
    for kind, options in works.items():
        for scope in ("task", "epoch"):
            flow = Flow(servers, folder / "checkpoints" / f"{kind}-{scope}")
            flow.produce(40)
            sink = {**options, "transactionScope": scope}
            query = flow.start(application, sink=sink, **options)
            query.wait_done()
            flow.assert_exactly_once()
            report = query.report()
            found["progress reports"] += report["progress"]
            found["plans"] += [
                report["plan"],
                *application.explain(subscribe=flow.input, **options),
            ]
    for kind, options in _refused(log_ins).items():
        flow = Flow(servers, folder / "checkpoints" / kind)
        flow.produce(4)
        query = flow.start(application, sink=options, **options)
        status = query.wait_end()
        assert status.error is not None, kind
        assert "EOSKAFKA_LOG_IN_FAILED" in status.error, (kind, status.error)
        report = query.report()
        found["errors"] += [status.error, report["error"], report["python"], report["plan"]]
    found["commands"] += _commands(log_ins, folder, flow)


def _commands(log_ins: LogIns, folder: Path, flow: Flow) -> list[str]:
    """What commands print with these settings, whether they succeed or not."""
    wrong = {**log_ins.clients["plain-quoted"], "sasl.jaas.config": plain_jaas(_WRONG)}
    everything = {
        name.removeprefix("kafka."): value for name, value in _everything(log_ins).items()
    }
    oauth = {
        **log_ins.clients["oauth"],
        "sasl.oauthbearer.client.credentials.client.secret": _ANOTHER_SECRET,
    }
    right = log_ins.clients["plain-quoted"]
    checkpoint = str(folder / "checkpoints" / "everything-epoch")
    topics = ["--input", flow.input, "--output", flow.output]
    show = ["offsets", "show"]
    writer = f"eoskafka-{flow.name}-{flow.group}-0"
    others = (
        ["offsets", "lag"],
        ["offsets", "reset", "--group", flow.group, "--to", "earliest", "--dry-run"],
        ["offsets", "adopt", checkpoint, "--dry-run"],
        ["txn", "list"],
        ["txn", "describe", writer],
        ["txn", "abort", writer],
        ["txn", "find-hanging"],
        ["dead-letters", "show", flow.output],
        ["dead-letters", "replay", flow.output],
        ["upgrade", "check", "--group", flow.group],
    )
    resolve = ["txn", "resolve", "--checkpoint", checkpoint]
    doctor = ["doctor", *topics, "--group", flow.group]
    verify = ["verify", *topics, "--by", "key"]
    said = []
    for name, settings, commands, code in (
        ("right", right, (show, doctor, resolve), (0, 1)),
        ("everything", everything, (show, verify), (1, 2)),
        ("wrong", wrong, (show, doctor, resolve, verify, *others), (1, 2, 3)),
        ("right", right, others, (0, 1, 2, 3)),
        ("oauth", oauth, (show, resolve), (1, 3)),
    ):
        file = folder / f"{name}.properties"
        lines = [f"{k}={v}".replace("\\", r"\\").replace("\n", r"\n") for k, v in settings.items()]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for command in commands:
            where = ["--bootstrap-servers", settings["bootstrap.servers"], "--config", str(file)]
            run = _command(*command, *where)
            assert run.returncode in code, (name, command, run)
            said += [str(command), run.stdout, run.stderr]
    given = [f"{k}={v}" for k, v in wrong.items() if k != "bootstrap.servers"]
    servers = ["--bootstrap-servers", wrong["bootstrap.servers"]]
    run = _command(*show, *servers, *(part for each in given for part in ("-X", each)))
    assert "warning: -X has put sasl.jaas.config" in " ".join(run.stderr.split())
    return [*said, run.stdout, run.stderr]


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "eoskafka", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _files(folder: Path) -> list[str]:
    """The names and the texts of all files below a folder."""
    return [
        f"{file}\n{file.read_bytes().decode('latin-1')}"
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    ]


def _pages(url: str) -> list[str]:
    """What the UI shows, as pages and by its REST interface."""
    rest = f"{url}/api/v1/applications"
    (id_,) = (each["id"] for each in json.loads(_page(rest)))
    pages = ["jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery"]
    texts = [_page(f"{url}/{page}/") for page in pages]
    queries = re.findall(r"/StreamingQuery/statistics/?\?id=[0-9a-f-]+", texts[-1])
    executions = _page(f"{rest}/{id_}/sql?details=true&planDescription=true&length=1000")
    numbers = [each["id"] for each in json.loads(executions)]
    assert queries
    assert numbers
    answers = ["environment", "jobs", "stages?details=true", "allexecutors"]
    return [
        *texts,
        executions,
        *(_page(url + path) for path in set(queries)),
        *(_page(f"{url}/SQL/execution/?id={number}") for number in numbers),
        *(_page(f"{rest}/{id_}/{path}") for path in answers),
    ]


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def _topics(servers: str) -> list[str]:
    """All records of all topics, Kafka's own included: decisions, and what groups commit."""
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        described = admin.describe_topics()
    partitions = [
        TopicPartition(topic["name"], each["partition_index"])
        for topic in described
        for each in topic["partitions"]
    ]
    found = []
    with closing(
        KafkaConsumer(
            bootstrap_servers=servers,
            exclude_internal_topics=False,
            enable_auto_commit=False,
            consumer_timeout_ms=3_000,
        )
    ) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        for record in consumer:
            parts = (record.key, record.value, *(value for _, value in record.headers))
            found.append(b" ".join(part or b"" for part in parts).decode("latin-1"))
    return [*{partition.topic for partition in partitions}, *found]


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_shown(log_ins: LogIns, shown: Mapping[str, str], place: str) -> None:
    text = shown[place]
    assert PLACES[place] in text
    pieces = Secrets(log_ins).pieces()
    assert len(pieces) > 40
    around = [
        text[max(0, at - 200) : at] for piece in pieces for at in [text.find(piece)] if at > 0
    ]
    assert around == []
