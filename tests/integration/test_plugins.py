"""Log-in plug-ins: the thin jar takes them, and the other jar says that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from eoskafka import jar_path
from eoskafka.cluster.jars import KAFKA_VERSION
from harness import Application, Flow, maven
from harness.javac import compile_to_jar
from harness.log_ins import PLAIN_PASSWORD, USER, LogIns

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_MSK = "software.amazon.msk.auth.iam"
# Nobody's: a token is signed without asking anybody.
_IDENTITY = {
    "AWS_ACCESS_KEY_ID": "AKIAEOSKAFKATESTS000",
    "AWS_SECRET_ACCESS_KEY": "4ws-secret-Kd57-of-the-user",
    "AWS_REGION": "eu-central-1",
}


@pytest.fixture(scope="module")
def log_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogIns]:
    """As the shared one, without a Spark session in this process."""
    with LogIns(tmp_path_factory.mktemp("log-ins")).running() as found:
        yield found


@pytest.fixture(scope="module")
def jars() -> list[Path]:
    """The plug-in of Amazon MSK with what it needs, and kafka-clients."""
    return maven.jars("plugins", f"kafka.version={KAFKA_VERSION}")


@pytest.fixture(scope="module")
def own_plugin(jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jar with a log-in module and a callback handler, compiled against kafka-clients."""
    clients = [jar for jar in jars if jar.name.startswith("kafka-clients-")]
    return compile_to_jar(tmp_path_factory.mktemp("plugin"), "plugins", clients)


@pytest.fixture(scope="module")
def thin(
    jars: list[Path], own_plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    """An application with the thin jar, kafka-clients and the plug-ins, and two executors."""
    settings = {"spark.jars": ",".join(map(str, [own_plugin, *jars]))}
    application = Application(tmp_path_factory.mktemp("thin"), "local-cluster[2,1,1024]", settings)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("EOSKAFKA_JAR", str(jar_path(thin=True)))
            for name, value in _IDENTITY.items():
                patch.setenv(name, value)
            application.start()
        application.wait_executors(2)
        yield application
    finally:
        application.kill()


def _by_own_plugin(log_ins: LogIns, folder: Path) -> dict[str, str]:
    password = folder / "password"
    password.write_text(f"{PLAIN_PASSWORD}\n", encoding="utf-8")
    return log_ins.options(
        "plain",
        **{
            "sasl.jaas.config": (
                f'testing.FileLogin required user="{USER}" passwordFile="{password}";'
            ),
            "sasl.client.callback.handler.class": "testing.FileCallbackHandler",
        },
    )


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_query_logs_in_by_a_plug_in(
    thin: Application, log_ins: LogIns, tmp_path: Path, scope: str
) -> None:
    options = _by_own_plugin(log_ins, tmp_path)
    flow = Flow(log_ins.cluster.bootstrap_servers, tmp_path / "checkpoint")
    flow.produce(40)
    flow.start(thin, sink={**options, "transactionScope": scope}, **options).wait_done()
    flow.assert_exactly_once()


def _msk_iam(log_ins: LogIns) -> dict[str, str]:
    """Amazon's own mechanism, which Apache Kafka's brokers do not have."""
    return log_ins.options(
        "plain",
        **{
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"{_MSK}.IAMLoginModule required;",
            "sasl.client.callback.handler.class": f"{_MSK}.IAMClientCallbackHandler",
        },
    )


def _msk_oauth(log_ins: LogIns) -> dict[str, str]:
    """A token that the plug-in signs with AWS's keys, and that these brokers do not believe."""
    options = log_ins.options("oauth")
    given = {name: value for name, value in options.items() if "sasl.oauthbearer" not in name}
    return {
        **given,
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "kafka.sasl.login.callback.handler.class": f"{_MSK}.IAMOAuthBearerLoginCallbackHandler",
    }


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("iam", "AWS_MSK_IAM' not enabled in the server"), ("oauth", "invalid_token")],
)
def test_a_log_in_of_amazons_plug_in_gets_as_far_as_the_brokers_refusal(
    thin: Application, log_ins: LogIns, tmp_path: Path, kind: str, reason: str
) -> None:
    options = {"iam": _msk_iam, "oauth": _msk_oauth}[kind](log_ins)
    flow = Flow(log_ins.cluster.bootstrap_servers, tmp_path / "checkpoint")
    flow.produce(4)
    error = flow.start(thin, sink=options, **options).wait_end().error
    assert error is not None
    assert "[EOSKAFKA_LOG_IN_FAILED]" in error
    assert reason in error
    seen = error + "".join(file.read_text("utf-8", "replace") for file in thin.logs())
    assert _IDENTITY["AWS_SECRET_ACCESS_KEY"] not in seen


@pytest.mark.parametrize("has_clients", [True, False], ids=["kafka-clients", "no kafka-clients"])
def test_the_other_jar_names_the_thin_one(
    log_ins: LogIns, jars: list[Path], own_plugin: Path, tmp_path: Path, has_clients: bool
) -> None:
    refused = {
        "kafka.sasl.client.callback.handler.class": "testing.FileCallbackHandler",
        "kafka.security.providers": "testing.NoProvider",
    }
    listed = [own_plugin, *(j for j in jars if has_clients and "kafka-clients" in j.name)]
    settings = {"spark.jars": ",".join(map(str, listed))}
    flow = Flow(log_ins.cluster.bootstrap_servers, tmp_path / "checkpoint")
    with Application(tmp_path / "application", "local[2]", settings) as application:
        for option, name in refused.items():
            options = {**log_ins.options("plain"), option: name}
            error = flow.start(application, sink=options, **options).wait_end().error
            assert error is not None
            assert "[EOSKAFKA_PLUGIN_NEEDS_THIN_JAR]" in error
            assert f"{option} names the class {name}" in error
