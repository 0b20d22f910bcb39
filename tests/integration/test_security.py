"""Log-ins: queries in each mode, the commands, and what a user is told if one is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka import real_time_trigger
from eoskafka.session import REAL_TIME_CHECK
from harness.certificates import Authority
from harness.log_ins import CLIENT_SECRET, SCRAM_PASSWORD, LogIns
from harness.versions import needs_real_time
from sessions import PROPERTY, settings
from streams import Job, Streams, command, kv

slow = pytest.mark.slow


def _of_page(commands: str = "") -> list[str]:
    """The kinds in docs/log-ins.json for whose commands that is so, without Kerberos."""
    page = Path(__file__).parents[2] / "docs" / "log-ins.json"
    return [
        kind
        for row in json.loads(page.read_text(encoding="utf-8"))["log_ins"]
        for kind in row["kinds"]
        if kind != "kerberos" and row["commands"].startswith(commands)
    ]


def _fast(kinds: list[str], *fast: str) -> list[Any]:
    """These kinds, of which the others are slow."""
    return [kind if kind in fast else pytest.param(kind, marks=slow) for kind in kinds]


_FIRST = ["plain-file", "plain-variable", "scram", "oauth", "tls", "mutual-pem", "mutual-jks"]
KINDS = _fast(_of_page(), *_FIRST)
# The others have the same clients, which log in in the same way.
ONE = _fast(_of_page(), "oauth")
# What a command says of a log-in that it does not have.
REFUSED = {
    "mutual-jks": "keytool -exportcert -rfc",
    "mutual-pkcs12": "keytool -exportcert -rfc",
    "mutual-inline": "is read by Java's client only",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_in_epoch_scope_logs_in(there: Streams, log_ins: LogIns, kind: str) -> None:
    logs_in(there, log_ins, kind, "epoch")


# Its clients are among those of a query in epoch scope.
@pytest.mark.parametrize("kind", ONE)
def test_a_query_in_task_scope_logs_in(there: Streams, log_ins: LogIns, kind: str) -> None:
    logs_in(there, log_ins, kind, "task")


def logs_in(there: Streams, log_ins: LogIns, kind: str, scope: str) -> None:
    options = log_ins.options(kind)
    topic, output = there.topic(records=10), there.topic()
    rows = kv(there.source(topic, options))
    there.run(there.sink(rows, output, None, {**options, "transactionScope": scope}))
    assert there.numbers(output) == [*range(10)]


@needs_real_time
@pytest.mark.parametrize("kind", ONE)
def test_a_query_in_real_time_mode_logs_in(there: Streams, log_ins: LogIns, kind: str) -> None:
    options = log_ins.options(kind)
    topic, output = there.topic(records=10), there.topic()
    rows = kv(there.source(topic, options))
    with settings(there.spark, {REAL_TIME_CHECK: "false"}):
        writer = there.sink(rows, output, None, options, mode="update")
        query = there.start(real_time_trigger(writer, "10 minutes"))
        there.wait_written(output, range(10), query)
        query.stop()


@pytest.mark.parametrize("kind", ONE)
def test_a_batch_job_logs_in(there: Streams, log_ins: LogIns, kind: str) -> None:
    options = log_ins.options(kind)
    topic, output = there.topic(records=10), there.topic()
    there.save(kv(there.batch(topic, options)), output, options)
    assert there.numbers(output) == [*range(10)]


def test_system_properties_of_the_client_have_kafkas_names(there: Streams) -> None:
    there.copy(there.topic(records=1), there.topic())
    system: Any = there.spark._jvm.System  # type: ignore[union-attr]
    # As start_session has set it, and as the client in the jar would ask for it.
    assert system.getProperty(f"org.apache.kafka.{PROPERTY}") == "given"
    assert system.getProperty(f"io.eoskafka.shaded.kafka.{PROPERTY}") == "given"


# ---- refused log-ins


def _wrong_password(log_ins: LogIns) -> dict[str, str]:
    options = log_ins.options("scram")
    jaas = options["kafka.sasl.jaas.config"].replace(SCRAM_PASSWORD, "another-one")
    return {**options, "kafka.sasl.jaas.config": jaas}


def _wrong_secret(log_ins: LogIns) -> dict[str, str]:
    name = "sasl.oauthbearer.client.credentials.client.secret"
    return log_ins.options("oauth", **{name: CLIENT_SECRET[::-1]})


def _expired_token(log_ins: LogIns) -> dict[str, str]:
    log_ins.tokens.lifetime_s = -10
    # Clients with the same settings share a token.
    return log_ins.options("oauth", **{"sasl.oauthbearer.scope": "ended"})


def _wrong_token(log_ins: LogIns) -> dict[str, str]:
    log_ins.tokens.is_genuine = False
    return log_ins.options("oauth", **{"sasl.oauthbearer.scope": "forged"})


def _no_file(log_ins: LogIns) -> dict[str, str]:
    return log_ins.options("tls", **{"ssl.truststore.location": "/nowhere/trust.pem"})


@pytest.fixture
def good_tokens_afterwards(log_ins: LogIns) -> Iterator[None]:
    yield
    log_ins.tokens.lifetime_s, log_ins.tokens.is_genuine = 3600, True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (lambda log_ins: log_ins.options("misnamed"), "127.0.0.1"),
        (lambda log_ins: log_ins.options("expired"), "NotAfter"),
        (_wrong_password, "invalid credentials"),
        (_wrong_secret, "401"),
        (_expired_token, "invalid_token"),
        (_wrong_token, "invalid_token"),
        (_no_file, "/nowhere/trust.pem"),
    ],
    ids=[
        *("misnamed", "expired", "wrong password", "wrong secret"),
        *("expired token", "wrong token", "no file"),
    ],
)
def test_a_refused_log_in_is_an_error_that_says_why(
    there: Streams,
    log_ins: LogIns,
    good_tokens_afterwards: None,
    options: Callable[[LogIns], dict[str, str]],
    said: str,
) -> None:
    given = options(log_ins)
    rows = kv(there.source(there.topic(records=1), given))
    error = there.failure(there.sink(rows, there.topic(), None, given)).partition("=== ")[0]
    assert "[EOSKAFKA_LOG_IN_FAILED]" in error
    assert said in error
    assert [s for s in (*log_ins.secrets(), CLIENT_SECRET[::-1], "another-one") if s in error] == []


def test_a_query_that_would_log_in_with_a_delegation_token_is_refused(
    there: Streams, log_ins: LogIns
) -> None:
    conf = there.spark._jvm.org.apache.spark.SparkEnv.get().conf()  # type: ignore[union-attr]
    options = log_ins.options("scram")
    del options["kafka.sasl.jaas.config"]
    name = "spark.kafka.clusters.east.auth.bootstrap.servers"
    conf.set(name, options["kafka.bootstrap.servers"])
    try:
        with pytest.raises(Exception, match="EOSKAFKA_DELEGATION_TOKENS") as refused:
            there.run(there.sink(kv(there.source(there.topic(), options)), there.topic()))
    finally:
        conf.remove(name)
    assert "spark.kafka.clusters.east " in str(refused.value)
    assert "docs/builtin.md" in str(refused.value)


# ---- commands


@pytest.fixture(scope="module")
def written(log_ins: LogIns, tmp_path_factory: pytest.TempPathFactory, shared_spark: Any) -> Job:
    """A query that has run without a log-in, in epoch scope."""
    folder = tmp_path_factory.mktemp("written")
    streams = Streams(shared_spark, log_ins.cluster.bootstrap_servers, folder)
    job = streams.job(records=10)
    streams.run(job.in_epoch_scope())
    streams.close()
    return job


def _asked(log_ins: LogIns, kind: str, folder: Path) -> list[str]:
    file = folder / "client.properties"
    lines = [f"{k}={v}".replace("\n", "\\n") + "\n" for k, v in log_ins.clients[kind].items()]
    file.write_text("".join(lines), encoding="utf-8")
    servers = log_ins.clients[kind]["bootstrap.servers"]
    return ["--bootstrap-servers", servers, "--config", str(file)]


@pytest.mark.parametrize("kind", _fast(_of_page("yes"), "mutual-pem"))
def test_commands_take_the_file_of_kafkas_own_tools(
    written: Job, log_ins: LogIns, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = _asked(log_ins, kind, tmp_path)
    of_query = ["--input", written.input, "--output", written.output, "--group", written.group]
    rights = [
        *("--input", written.input, "--output", written.output),
        *("--group", written.group),
    ]
    shown = ""
    for arguments, said in (
        (["offsets", "lag", "--format", "json"], written.group),
        (["txn", "list"], ""),
        # These read, and ask for rights, with librdkafka.
        (["verify", *of_query, "--by", "digest"], ""),
        (["doctor", *rights], f"topic {written.input}"),
    ):
        code, out, err = command(capsys, *arguments, *asked)
        assert (code, said in out) == (0, True), (arguments, out, err)
        shown += out + err
    assert [s for s in log_ins.secrets() if s in shown] == []


@pytest.mark.parametrize("kind", _of_page("no"))
def test_commands_refuse_by_name_what_only_java_reads(
    log_ins: LogIns, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command(capsys, "offsets", "lag", *_asked(log_ins, kind, tmp_path))
    assert code == 1
    assert REFUSED[kind] in " ".join(err.split())
    assert [s for s in log_ins.secrets() if s in out + err] == []


def test_a_command_says_that_the_token_service_refuses_it(
    log_ins: LogIns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = f"sasl.oauthbearer.client.credentials.client.secret={CLIENT_SECRET[::-1]}"
    asked = _asked(log_ins, "oauth", tmp_path)
    code, out, err = command(capsys, "offsets", "lag", *asked, "-X", wrong)
    assert code == 1
    assert "has refused the client job: HTTP 401" in " ".join(err.split())
    assert CLIENT_SECRET[::-1] not in out + err


@slow
@pytest.mark.parametrize("kind", ["scram", "misnamed", "expired"])
def test_a_command_whose_log_in_is_refused_says_what_to_check(
    log_ins: LogIns, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = _asked(log_ins, kind, tmp_path)
    if kind == "scram":
        wrong = log_ins.clients[kind]["sasl.jaas.config"].replace(SCRAM_PASSWORD, "another-one")
        asked += ["-X", f"sasl.jaas.config={wrong}"]
    code, out, err = command(capsys, "offsets", "lag", *asked)
    assert code == 3
    assert "that the log-in and the brokers' certificate are valid" in " ".join(err.split())
    assert "another-one" not in out + err


@pytest.fixture
def untrusted(tmp_path: Path) -> Path:
    """The certificate of an authority that has issued nothing here."""
    folder = tmp_path / "untrusted"
    folder.mkdir()
    return Authority(folder, "of-nothing").trust


@slow
@pytest.mark.parametrize("kind", ["misnamed", "expired", "untrusted"])
@pytest.mark.parametrize(
    "asks",
    [
        ["offsets", "lag"],
        ["verify", "--input", "t", "--output", "u", "--by", "key"],
        ["doctor", "--input", "t"],
        ["txn", "resolve", "nightly"],
    ],
    ids=lambda asks: asks[0],
)
def test_a_command_trusts_no_other_certificate(
    log_ins: LogIns,
    kind: str,
    asks: list[str],
    tmp_path: Path,
    untrusted: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = _asked(log_ins, "tls" if kind == "untrusted" else kind, tmp_path)
    if kind == "untrusted":
        # It comes before the right one in the file.
        asked += ["-X", f"ssl.truststore.location={untrusted}"]
    code, out, err = command(capsys, *asks, *asked)
    assert code in (1, 3), (out, err)
    assert re.search("certificate|handshake|SSL", out + err), (out, err)
    # With the certificate that is right, the same command gets an answer of the brokers.
    _, out, err = command(capsys, *asks, *_asked(log_ins, "tls", tmp_path))
    assert not re.search("certificate that|handshake|CERTIFICATE_VERIFY", out + err), (out, err)


def test_a_command_trusts_no_other_token_service(
    log_ins: LogIns, untrusted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = _asked(log_ins, "oauth", tmp_path)
    before = len(log_ins.tokens.issued)
    jaas = log_ins.clients["oauth"]["sasl.jaas.config"]
    other = jaas.replace(str(log_ins.authority.trust), str(untrusted))
    assert other != jaas
    code, _, err = command(capsys, "offsets", "lag", *asked, "-X", f"sasl.jaas.config={other}")
    assert code == 3
    assert "could not be asked" in err
    assert "CERTIFICATE_VERIFY_FAILED" in "".join(err.split())
    assert len(log_ins.tokens.issued) == before


@slow
@pytest.mark.parametrize("kind", KINDS)
def test_txn_resolve_logs_in_as_the_connector_does(
    written: Job, log_ins: LogIns, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = _asked(log_ins, kind, tmp_path)
    code, out, err = command(
        capsys, "txn", "resolve", "--checkpoint", str(written.checkpoint), *asked
    )
    assert code == 0, err
    assert [s for s in log_ins.secrets() if s in out + err] == []


def test_no_secret_of_a_log_in_is_in_a_log(log_ins: LogIns, spark_folder: Path) -> None:
    """The last one of this file, so that the log has all of the above."""
    log = (spark_folder / "spark.log").read_text(encoding="utf-8")
    # At a level at which clients print their settings.
    assert "sasl.oauthbearer.client.credentials.client.id = job" in log
    assert [s for s in log_ins.secrets() if s in log] == []
