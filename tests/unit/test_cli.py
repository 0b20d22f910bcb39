from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from eoskafka import JarError, __version__
from eoskafka.cli import app, txn
from eoskafka.errors import TransactionError, UnreachableError
from eoskafka.jobs import Outcome, Resolution


def run(*arguments: str) -> int:
    """The exit code of one command line."""
    try:
        return app.run(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_version_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("cluster", "start", "--brokers", "2"), ("cluster", "status", "--format", "x")],
)
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments) == 2


def test_the_status_of_no_cluster_ends_with_3_and_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("cluster", "status", "--data-dir", str(tmp_path)) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert "eoskafka cluster start" in output.err


@pytest.mark.parametrize("verb", ["stop", "purge"])
def test_stopping_no_cluster_ends_with_1(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("cluster", verb, "--data-dir", str(tmp_path)) == 1
    assert f"no cluster in {tmp_path}" in capsys.readouterr().err


def test_jar_path_prints_the_path_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "jar_path", lambda thin: Path("/x/eoskafka.jar"))
    assert run("jar-path") == 0
    assert capsys.readouterr().out == "/x/eoskafka.jar\n"


def test_a_missing_jar_ends_with_1_and_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_jar(thin: bool) -> Path:
        raise JarError("run `make build`")

    monkeypatch.setattr(app, "jar_path", no_jar)
    assert run("jar-path") == 1
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "error: run `make build`\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("cluster",),
        ("cluster", "start"),
        ("cluster", "status"),
        ("cluster", "stop"),
        ("cluster", "purge"),
        ("jar-path",),
        ("doctor",),
        ("verify",),
    ],
)
def test_every_help_text_has_an_example(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, "--help") == 0
    assert "Example: " in capsys.readouterr().out


def resolved(outcome: Outcome, lost: int = 0) -> Resolution:
    return Resolution(outcome, committed=4 - lost, lost=lost, forgotten=False)


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (resolved(Outcome.COMMITTED), 0, "nightly: all of it has taken effect"),
        (resolved(Outcome.UNDECIDED), 0, "nightly: nothing of it has taken effect"),
        (resolved(Outcome.INCOMPLETE, 1), 1, "1 of 4 transactions had timed out"),
        (resolved(Outcome.UNKNOWN), 1, "nothing is known of it here"),
    ],
)
def test_txn_resolve_says_what_became_of_a_write(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Resolution,
    code: int,
    said: str,
) -> None:
    asked: list[dict[str, str]] = []

    def resolve(write_id: str, options: dict[str, str], *_: bool) -> Resolution:
        asked.append(options)
        return found

    monkeypatch.setattr(txn, "resolve", resolve)
    command = ["txn", "resolve", "nightly", "--bootstrap-servers", "b:9", "-X", "ssl.x=a=b"]
    assert run(*command) == code
    assert said in capsys.readouterr().out
    assert asked[0]["kafka.ssl.x"] == "a=b"


@pytest.mark.parametrize(("error", "code"), [(UnreachableError, 3), (TransactionError, 1)])
def test_txn_resolve_tells_a_refusal_from_brokers_that_do_not_answer(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[Exception],
    code: int,
) -> None:
    def resolve(*_: object) -> Resolution:
        raise error("why it was not")

    monkeypatch.setattr(txn, "resolve", resolve)
    assert run("txn", "resolve", "nightly", "--bootstrap-servers", "b:9") == code
    assert "why it was not" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["nothing", "password:gH7k", "=gH7k", "a password=gH7k"])
def test_a_property_has_a_key_and_a_value(capsys: pytest.CaptureFixture[str], given: str) -> None:
    assert run("txn", "resolve", "nightly", "--bootstrap-servers", "b:9", "-X", given) == 2
    said = capsys.readouterr().err
    assert "number 1 of these options" in said
    assert "gH7k" not in said


@pytest.mark.parametrize(
    ("given", "is_secret"),
    [
        ("ssl.key.password=gH7k", True),
        ("sasl_plain_password=gH7k", True),
        ("ssl.keystore.key=gH7k", True),
        ("sasl.oauthbearer.client.credentials.client.secret=gH7k", True),
        ('sasl.jaas.config=a.Module required username="u" password="gH7k";', True),
        ('sasl.jaas.config=a.Module required awsSecretAccessKey="gH7k";', True),
        ("sasl.jaas.config=a.Module required;", False),
        ('sasl.jaas.config=a.Module required password="${env:gH7k}";', False),
        ("ssl.key.password=${file:/etc/gH7k:password}", False),
        ("ssl.keystore.location=/etc/gH7k.pem", False),
        ("sasl.oauthbearer.token.endpoint.url=https://gH7k", False),
        ("proxy_url=socks5://user:gH7k@host:1080", True),
        ("proxy_url=socks5://gH7k:1080", False),
    ],
)
def test_a_secret_on_the_command_line_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str,
    is_secret: bool,
) -> None:
    monkeypatch.setattr(txn, "resolve", lambda *_: resolved(Outcome.COMMITTED))
    assert run("txn", "resolve", "nightly", "--bootstrap-servers", "b:9", "-X", given) == 0
    shown = capsys.readouterr()
    warning = " ".join(shown.err.split())
    name = given.partition("=")[0]
    assert (f"warning: -X has put {name} on the command line" in warning) == is_secret
    assert ("name the file with --config" in warning) == is_secret
    assert "gH7k" not in shown.err + shown.out


def test_an_exception_that_nobody_expects_shows_no_settings(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from eoskafka.cli import app, txn\n"
        "def resolve(_, options, *__):\n"
        "    password = options['kafka.ssl.key.password']\n"
        "    raise RuntimeError(f'a fault, with {len(password)} letters')\n"
        "txn.resolve = resolve\n"
        "app.run(__import__('sys').argv[1:])\n",
        encoding="utf-8",
    )
    given = ["-X", "ssl.key.password=gH7k"]
    said = subprocess.run(
        [sys.executable, program, "txn", "resolve", "a", "--bootstrap-servers", "b:9", *given],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "a fault, with 4 letters" in said.stderr
    assert "gH7k" not in said.stderr + said.stdout
    assert not app.app.pretty_exceptions_show_locals
