"""The lists of rights in conf/: each is enough, and each of its rights is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import eoskafka
import pytest
from eoskafka import properties
from harness.rights import GuardedCluster, Right, granted_by
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata
from pyspark.sql import SparkSession
from streams import Options, Streams, command, kv

RECORDS = 6
# What docs/security.md says of each right.
LISTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "docs" / "rights.json").read_text(encoding="utf-8")
)["lists"]
QUERIES = [each for each in LISTS if "use" in each]
COMMANDS = [each for each in LISTS if "commands" in each]
_FAST = ("task", "epoch")
# By the kind of resource, and whether the right is for all names that begin so.
_KINDS = {
    ("topic", False): "the topic ",
    ("group", True): "groups that begin with ",
    ("transactional-id", True): "transactional ids that begin with ",
    ("cluster", False): "the cluster",
}


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    """A broker on which users have only what they are granted."""
    with GuardedCluster(tmp_path_factory.mktemp("rights")) as cluster:
        yield cluster


@pytest.fixture
def there(shared_spark: SparkSession, rights: GuardedCluster, tmp_path: Path) -> Iterator[Streams]:
    """Queries on that broker; the test itself may do anything."""
    with closing(Streams(shared_spark, rights.cluster.bootstrap_servers, tmp_path)) as streams:
        yield streams


class Case:
    """A query of some kind, with topics and names of its own, and what it is granted.

    Args:
        use: which one, by the lists' `use`.
        user: whose log-in it has.
        names: by the variables of the scripts; None for new ones.

    Attributes:
        runs: how often it has processed `RECORDS` records.
    """

    def __init__(
        self,
        streams: Streams,
        cluster: GuardedCluster,
        use: str,
        user: str = "job",
        names: dict[str, str] | None = None,
    ) -> None:
        self.streams = streams
        self.use = use
        self.names = names or new_names(streams)
        self.runs = 0
        self._login = cluster.options(user)
        self._checkpoint = streams.checkpoint()

    def granted(self, scripts: list[str]) -> dict[str, Right]:
        """What the scripts grant, by the text that rights.json has for it."""
        variables = {value: name for name, value in self.names.items()}
        folder = self.streams.folder / "bin"
        found = {}
        for right in (
            right for each in scripts for right in granted_by(each, folder, **self.names)
        ):
            name = variables.get(right.name, right.name)
            found[f"{right.operation} on {_KINDS[right.kind, right.is_prefix]}{name}"] = right
        return found

    def said(self, text: str) -> str:
        """A text of rights.json, with the names in place of the variables."""
        return re.sub(r"[A-Z]{4,}(?:_[A-Z]+)*", lambda m: self.names.get(m[0], m[0]), text)

    def run(self) -> None:
        """Process everything that is there; fails as the query fails."""
        sink, output = self._sink(), self.names["OUTPUT"]
        if self.use == "batch":
            begin = self.runs * RECORDS
            rows = self.streams.spark.range(begin, begin + RECORDS)
            self.streams.save(rows.selectExpr("cast(id as string) value"), output, sink)
        elif self.use == "source":
            writer = kv(self._source()).writeStream.format("noop").trigger(availableNow=True)
            self.streams.run(writer.option("checkpointLocation", str(self._checkpoint)))
        else:
            rows = self._numbers() if self.use == "sink" else kv(self._source())
            writer = self.streams.sink(rows, output, self._checkpoint, sink)
            self.streams.run(writer.trigger(once=True) if self.use == "sink" else writer)
        self.runs += 1

    def more(self) -> None:
        """Further records, for the next run."""
        begin = self.runs * RECORDS
        self.streams.send(self.names["INPUT"], *range(begin, begin + RECORDS))

    def assert_written(self) -> None:
        """What was to be processed has come out, each record once."""
        if self.use != "source":
            assert self.streams.numbers(self.names["OUTPUT"]) == [*range(self.runs * RECORDS)]

    def error(self) -> str:
        """The message of the connector's error with which the query fails."""
        with pytest.raises(Exception) as raised:  # noqa: PT011
            self.run()
        found = eoskafka.error_of(raised.value)
        assert found is not None, str(raised.value)
        return str(found)

    def _source(self) -> Any:
        given = {**self._login, "groupIdPrefix": self.names["GROUP"]}
        if self.use == "shared":
            given |= {"ownership": "shared", "kafka.group.id": f"{self.names['GROUP']}-shared"}
        return self.streams.source(self.names["INPUT"], given)

    def _sink(self) -> Options:
        given = {
            **self._login,
            "transactionalIdPrefix": self.names["TRANSACTIONAL_ID_PREFIX"],
            "decisionTopic": self.names["DECISION_TOPIC"],
        }
        return {**given, "transactionScope": self.use} if self.use in _FAST else given

    def _numbers(self) -> Any:
        rows = self.streams.spark.readStream.format("rate-micro-batch")
        rows = rows.option("rowsPerBatch", RECORDS).option("numPartitions", 1)
        return rows.load().selectExpr("cast(value as string) value")


def new_names(streams: Streams) -> dict[str, str]:
    """Topics with and without records, and names that nothing has yet."""
    return {
        "INPUT": streams.topic(records=RECORDS),
        "OUTPUT": streams.topic(),
        "GROUP": streams.group(),
        "TRANSACTIONAL_ID_PREFIX": streams.group(),
        "DECISION_TOPIC": streams.group(),
    }


def of_each_right() -> list[Any]:
    """Each list with each of its rights; the first of those in `_FAST` runs in CI."""
    found = []
    for each in QUERIES:
        for right in each["rights"]:
            is_fast = each["use"] == "task"
            marks = () if is_fast else pytest.mark.slow
            name = f"{each['use']} without {right['right']}"
            found.append(pytest.param(each, right, id=name, marks=marks))
    return found


@pytest.mark.parametrize(
    "list_",
    [
        pytest.param(each, id=each["use"], marks=() if each["use"] in _FAST else pytest.mark.slow)
        for each in QUERIES
    ],
)
def test_a_list_is_enough(there: Streams, rights: GuardedCluster, list_: dict[str, Any]) -> None:
    case = Case(there, rights, list_["use"])
    granted = case.granted(list_["scripts"])
    assert [*granted] == [each["right"] for each in list_["rights"]]
    rights.grant(granted.values())
    case.run()
    case.assert_written()


@pytest.mark.parametrize(("list_", "right"), of_each_right())
def test_each_right_is_needed(
    there: Streams,
    rights: GuardedCluster,
    list_: dict[str, Any],
    right: dict[str, str],
    spark_folder: Path,
) -> None:
    case = Case(there, rights, list_["use"])
    granted = case.granted(list_["scripts"])
    if "restart" in right:
        rights.grant(granted.values())
        case.run()
        case.more()
    rights.grant(each for text, each in granted.items() if text != right["right"])
    said = case.said(right["says"])
    if "condition" in right:
        error = case.error()
        assert f"[{right['condition']}]" in error
        assert said in error
        rights.grant(granted.values())
    log = spark_folder / "spark.log"
    before = log.stat().st_size
    case.run()
    case.assert_written()
    if "condition" not in right:
        with log.open("rb") as file:
            file.seek(before)
            assert said in file.read().decode()


@pytest.mark.slow
def test_rights_on_less_than_the_prefix_are_enough_for_what_they_cover(
    there: Streams, rights: GuardedCluster
) -> None:
    case = Case(there, rights, "task")
    names = case.names
    # Of the names that this query's producers have, and not of every one with its prefix.
    less = f"{names['TRANSACTIONAL_ID_PREFIX']}-{names['GROUP']}"
    given = {**names, "TRANSACTIONAL_ID_PREFIX": less}
    rights.grant(granted_by("acls-task-scope.sh", there.folder / "bin", **given))
    case.run()
    case.assert_written()


# ---- commands


class Operator:
    """The commands of a user of the cluster, on what a stopped query has left.

    Args:
        file: for the settings of the user's client.
    """

    def __init__(self, streams: Streams, cluster: GuardedCluster, file: Path) -> None:
        self.case = Case(streams, cluster, "")
        names = self.case.names
        lines = [f"{name}={value}\n" for name, value in cluster.client().items()]
        file.write_text("".join(lines), encoding="utf-8")
        servers = cluster.client()["bootstrap.servers"]
        where = ("--bootstrap-servers", servers, "--config", str(file))
        of_query = {
            "transactionalIdPrefix": names["TRANSACTIONAL_ID_PREFIX"],
            "decisionTopic": names["DECISION_TOPIC"],
        }
        group = f"{names['GROUP']}-job"
        checkpoints = {scope: streams.checkpoint() for scope in _FAST}
        for scope, checkpoint in checkpoints.items():
            given = {"kafka.group.id": group if scope == "task" else f"{group}-epochs"}
            rows = kv(streams.source(names["INPUT"], given))
            sink = {**of_query, "transactionScope": scope}
            output = names["OUTPUT"] if scope == "task" else streams.topic()
            streams.run(streams.sink(rows, output, checkpoint, sink))
        streams.remove_members(group)
        prefix = ("--transactional-id-prefix", names["TRANSACTIONAL_ID_PREFIX"])
        self.transaction = f"{names['TRANSACTIONAL_ID_PREFIX']}-{'A' * 22}-0"
        topics = ("--input", names["INPUT"], "--output", names["OUTPUT"])
        resolve = ("--checkpoint", str(checkpoints["epoch"]))
        self._lines: dict[str, tuple[str, ...]] = {
            "verify": ("verify", *topics, "--group", group, "--by", "digest", *where),
            "show": ("offsets", "show", "--group", group, *where),
            "lag": ("offsets", "lag", "--group", group, *where),
            "reset": ("offsets", "reset", "--group", group, "--to", "earliest", *where),
            "adopt": ("offsets", "adopt", str(checkpoints["task"]), *where),
            "list": ("txn", "list", *prefix, *where),
            "describe": ("txn", "describe", self.transaction, *prefix, *where),
            "find-hanging": ("txn", "find-hanging", "--topics", names["OUTPUT"], *where),
            "abort": ("txn", "abort", self.transaction, *prefix, *where),
            "resolve": (
                *("txn", "resolve", "--decision-topic", names["DECISION_TOPIC"]),
                *(*resolve, *prefix, *where),
            ),
        }

    def run(self, capsys: pytest.CaptureFixture[str], name: str) -> tuple[int, str]:
        """Exit code and messages of a command; those of `txn` find a transaction of a task open."""
        servers = self.case.streams.servers
        with ExitStack() as stack:
            if name in ("list", "describe", "find-hanging", "abort"):
                producer = KafkaProducer(
                    bootstrap_servers=servers, transactional_id=self.transaction
                )
                stack.enter_context(closing(producer))
                producer.init_transactions()
                producer.begin_transaction()
                producer.send(self.case.names["OUTPUT"], value=b"-1")
                producer.flush()
            code, out, err = command(capsys, *self._lines[name])
            if name in ("list", "describe", "find-hanging"):
                producer.abort_transaction()
        return code, " ".join(f"{out} {err}".split())


@pytest.fixture(scope="module")
def operator(
    shared_spark: SparkSession, rights: GuardedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """Commands on a query that has run and was stopped."""
    folder = tmp_path_factory.mktemp("operator")
    with closing(Streams(shared_spark, rights.cluster.bootstrap_servers, folder)) as streams:
        yield Operator(streams, rights, folder / "client.properties")


@pytest.mark.slow
@pytest.mark.parametrize("list_", [pytest.param(each, id=each["for"]) for each in COMMANDS])
def test_a_list_is_enough_for_its_commands(
    operator: Operator,
    rights: GuardedCluster,
    capsys: pytest.CaptureFixture[str],
    list_: dict[str, Any],
) -> None:
    granted = operator.case.granted(list_["scripts"])
    assert [*granted] == [each["right"] for each in list_["rights"]]
    rights.grant(granted.values())
    for name in list_["commands"]:
        assert operator.run(capsys, name)[0] == 0, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scripts", "right"),
    [
        pytest.param(each["scripts"], right, id=f"{right['command']} without {right['right']}")
        for each in COMMANDS
        for right in each["rights"]
    ],
)
def test_each_right_of_a_command_is_needed(
    operator: Operator,
    rights: GuardedCluster,
    capsys: pytest.CaptureFixture[str],
    scripts: list[str],
    right: dict[str, Any],
) -> None:
    granted = operator.case.granted(scripts)
    rights.grant(each for text, each in granted.items() if text != right["right"])
    code, said = operator.run(capsys, right["command"])
    assert code == right["exit"], said
    assert operator.case.said(right["says"]) in said


# ---- several teams


def test_a_team_cannot_touch_what_is_anothers(there: Streams, rights: GuardedCluster) -> None:
    scripts = ["acls-task-scope.sh", "acls-epoch-scope.sh"]
    teams = {user: new_names(there) for user in ("team-a", "team-b")}
    for user, names in teams.items():
        rights.grant(Case(there, rights, "epoch", user, names).granted(scripts).values(), user)
    theirs = Case(there, rights, "epoch", "team-b", teams["team-b"])
    theirs.run()
    Case(there, rights, "epoch", "team-a", teams["team-a"]).run()

    for variable, said in (
        ("INPUT", "Read on the topic INPUT"),
        ("OUTPUT", "Write on the topic OUTPUT"),
        ("GROUP", "Read on the group GROUP"),
        ("TRANSACTIONAL_ID_PREFIX", "Write on the transactional id TRANSACTIONAL_ID_PREFIX-"),
        ("DECISION_TOPIC", "on the topic DECISION_TOPIC"),
    ):
        names = {**teams["team-a"], variable: teams["team-b"][variable]}
        error = Case(there, rights, "epoch", "team-a", names).error()
        assert "[EOSKAFKA_NOT_AUTHORIZED]" in error, variable
        assert said.replace(variable, names[variable]) in error

    # Nor with a client of its own.
    b = teams["team-b"]
    given = properties.of_kafka_python({}, rights.client("team-a"))
    servers = rights.client("team-a")["bootstrap.servers"]
    name = f"{b['TRANSACTIONAL_ID_PREFIX']}-x"
    with (
        closing(KafkaProducer(bootstrap_servers=servers, transactional_id=name, **given)) as it,
        pytest.raises(TransactionalIdAuthorizationFailedError),
    ):
        it.init_transactions()
    with (
        closing(KafkaProducer(bootstrap_servers=servers, **given)) as it,
        pytest.raises(TopicAuthorizationFailedError),
    ):
        it.send(b["DECISION_TOPIC"], key=b"k", value=b"v", partition=0).get(20)
    group = f"{b['GROUP']}-moved"
    with closing(KafkaAdminClient(bootstrap_servers=servers, **given)) as admin:
        with pytest.raises(GroupAuthorizationFailedError):
            admin.list_group_offsets([group])
        offset = {TopicPartition(b["INPUT"], 0): OffsetAndMetadata(0, "", -1)}
        with pytest.raises(GroupAuthorizationFailedError):
            admin.alter_group_offsets(group, offset)

    theirs.more()
    theirs.run()
    theirs.assert_written()
