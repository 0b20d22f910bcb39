"""What the README and docs/ show runs: Python blocks, commands' names and options, settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import typer
from eoskafka.cli import app
from eoskafka.cli.app import app as tree
from eoskafka.session import PLUGIN_CLASS, REAL_TIME_CHECK, REDACTED, REDACTION
from harness import until
from harness.otlp import OtlpReceiver
from harness.pages import python_blocks
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError
from sessions import settings
from streams import QUERY_S, Streams

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
# They need a server of Spark Connect, an object store, a pipeline, and a schema registry:
# test_connect.py, test_object_store.py, test_pipelines.py, test_schemas_streams.py and
# test_schemas_python.py have these.
ELSEWHERE = (
    "connect.md",
    "object-stores.md",
    "pipelines.md",
    "schemas.md",
    "schemas-python.md",
)
# What pages start besides queries, and how it ends.
CLOSED = {"exporter": "close", "instrumentation": "close", "meters": "shutdown"}
TOPICS = ("payments", "payments-clean", "payments-dead", "orders", "lines", "counts")


@pytest.fixture
def topics(streams: Streams) -> Iterator[None]:
    """The topics that pages read and write, gone afterwards."""
    with closing(KafkaAdminClient(bootstrap_servers=streams.servers)) as admin:
        try:
            admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS])
        except TopicAlreadyExistsError:
            raise AssertionError("another test has these topics") from None
        yield
        admin.delete_topics([t for t in admin.list_topics() if t.removeprefix("own-") in TOPICS])


@pytest.fixture
def settings_stay(streams: Streams) -> Iterator[None]:
    """What a page sets for its queries is not set for the next test's."""
    with settings(streams.spark, {REAL_TIME_CHECK: "true"}):
        yield


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.mark.usefixtures("topics", "settings_stay")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if python_blocks(page) and page.name not in ELSEWHERE],
    ids=lambda page: page.name,
)
def test_python_in_a_page_runs(
    page: Path, streams: Streams, tmp_path: Path, receiver: OtlpReceiver
) -> None:
    ended = streams.copy(streams.topic(records=2), streams.topic())
    names: dict[str, object] = {"spark": streams.spark, "query": ended, "password": "secret"}
    before = {query.id for query in streams.spark.streams.active}
    try:
        for block in python_blocks(page):
            code = block.replace("broker:9092", streams.servers).replace("port=9095", "port=0")
            code = code.replace("/tmp/checkpoints/", "/checkpoints/")
            code = code.replace("/checkpoints/", f"{tmp_path}/checkpoints/")
            code = code.replace("127.0.0.1:9092", streams.servers)
            code = code.replace("http://127.0.0.1:4318", receiver.url)
            # A report comes with a batch's end.
            code = code.replace('realTime="5 minutes"', 'realTime="5 seconds"')
            if "create_topics" in code:
                # Those of the other blocks are there.
                code = code.replace('"payments', '"own-payments')
            # Queries without an end are looked at below.
            code = re.sub(r"^query\.awaitTermination\(\)$", "", code, flags=re.MULTILINE)
            exec(compile(code, str(page), "exec"), names)
        started = [query for query in streams.spark.streams.active if query.id not in before]
        with closing(KafkaProducer(bootstrap_servers=streams.servers)) as producer:
            for query in started:

                def has_rows(query: object = query) -> bool:
                    for topic in ("payments", "orders", "lines"):
                        producer.send(topic, key=b"k", value=b"a word")
                    producer.flush()
                    return any(report.numInputRows for report in query.recentProgress)  # type: ignore[attr-defined]

                until(has_rows, f"a batch of a query in {page.name}", QUERY_S)
    finally:
        for query in streams.spark.streams.active:
            if query.id not in before:
                query.stop()
        for name, how in CLOSED.items():
            if close := getattr(names.get(name), how, None):
                close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_a_page_exist(page: Path) -> None:
    """With the options that are shown; they are parsed, not run."""
    for block in SHELL.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("eoskafka "):
                # A choice of several is shown with bars between them.
                words = shlex.split(line.split("|")[0] if "|" in line else line)[1:]
                assert _parses(words), line


def _parses(words: list[str]) -> bool:
    command = typer.main.get_command(tree)
    context = command.make_context("eoskafka", ["--version"], resilient_parsing=True)
    while words and isinstance(command, typer.core.TyperGroup):
        found = command.get_command(context, words[0])
        if found is None:
            return False
        command, words = found, words[1:]
    options = {name for parameter in command.params for name in parameter.opts}
    return all(word in options for word in words if word.startswith("-"))


@pytest.mark.parametrize(
    "file", sorted((ROOT / "conf" / "spark-defaults").glob("*.conf")), ids=lambda file: file.name
)
def test_settings_for_a_cluster_have_what_the_connector_needs(file: Path) -> None:
    lines = [line.split(maxsplit=1) for line in file.read_text(encoding="utf-8").splitlines()]
    found = {
        key: value.strip() for key, value in (line for line in lines if line and line[0] != "#")
    }
    assert found["spark.plugins"] == PLUGIN_CLASS
    assert found[REDACTION] == REDACTED
    if file.name == "connect.conf":
        assert REDACTED.removeprefix("(?i)") in found["spark.redaction.string.regex"]
    assert all(key.startswith("spark.") for key in found)
    assert "spark.jars" in found or file.name == "databricks.conf"


def test_every_command_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    def leaves(command: object, path: list[str]) -> Iterator[list[str]]:
        if isinstance(command, typer.core.TyperGroup):
            for name, child in command.commands.items():
                yield from leaves(child, [*path, name])
        else:
            yield path

    for path in leaves(typer.main.get_command(tree), []):
        with pytest.raises(SystemExit) as ended:
            raise SystemExit(app.run([*path, "--help"]))
        assert ended.value.code == 0
        assert "Example:" in capsys.readouterr().out, path
