"""Brokers that want a log-in or TLS: queries of both scopes, and the commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from eoskafka.cli import app
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker
from eoskafka.cluster.local import free_ports
from pyspark.sql import SparkSession
from streams import Streams, kv

PASSWORD = "broker-s-own"
_LOGIN = "org.apache.kafka.common.security"
_PLAIN = f'{_LOGIN}.plain.PlainLoginModule required username="job" password="{PASSWORD}"'
_OAUTH = f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required"


class Secured(NamedTuple):
    """Settings of a client, by what it shows the broker."""

    cluster: LocalCluster
    clients: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with a listener for each kind of log-in."""
    folder = tmp_path_factory.mktemp("secured")
    ports = dict(zip(("PLAIN", "OAUTH", "TLS"), free_ports(3), strict=True))
    keys, trust = _stores(folder)

    def listeners(broker: Broker) -> dict[str, str]:
        own, control = broker.port, broker.controller_port
        public = ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in {"PLAINTEXT": own, **ports}.items()
        )
        return {
            "listeners": f"{public},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": public,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "PLAIN:SASL_PLAINTEXT,OAUTH:SASL_PLAINTEXT,TLS:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": f'{_PLAIN} user_job="{PASSWORD}";',
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.oauthbearer.sasl.jaas.config": (
                f'{_OAUTH} unsecuredLoginStringClaim_sub="broker";'
            ),
            "listener.name.tls.ssl.keystore.location": str(keys),
            "listener.name.tls.ssl.keystore.password": PASSWORD,
            "listener.name.tls.ssl.keystore.type": "PKCS12",
        }

    password = folder / "password.properties"
    password.write_text(f"password={PASSWORD}\n", encoding="utf-8")
    clients = {
        "file": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{_PLAIN};".replace(PASSWORD, f"${{file:{password}:password}}"),
            "config.providers": "file",
            "config.providers.file.class": (
                "org.apache.kafka.common.config.provider.FileConfigProvider"
            ),
        },
        "plain": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{_PLAIN};",
        },
        "oauth": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{_OAUTH} unsecuredLoginStringClaim_sub="job";',
        },
        "tls": {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(trust),
            "ssl.truststore.type": "PEM",
        },
    }
    for name, settings in clients.items():
        listener = {"file": "PLAIN"}.get(name, name.upper())
        settings["bootstrap.servers"] = f"127.0.0.1:{ports[listener]}"
    with LocalCluster(brokers=1, data_dir=folder / "cluster", properties=listeners) as cluster:
        yield Secured(cluster, clients)


@pytest.fixture
def there(shared_spark: SparkSession, secured: Secured, tmp_path: Path) -> Iterator[Streams]:
    """Queries on that broker, whose test itself needs no log-in."""
    servers = secured.cluster.bootstrap_servers
    with closing(Streams(shared_spark, servers, tmp_path)) as streams:
        yield streams


@pytest.mark.parametrize("scope", ["task", "epoch"])
@pytest.mark.parametrize("kind", ["plain", "file", "oauth", "tls"])
def test_a_query_logs_in(there: Streams, secured: Secured, kind: str, scope: str) -> None:
    options = _options(secured.clients[kind])
    topic, output, checkpoint = there.topic(records=10), there.topic(), there.checkpoint()

    def run() -> None:
        rows = kv(there.source(topic, options))
        there.run(there.sink(rows, output, checkpoint, {**options, "transactionScope": scope}))

    run()
    there.send(topic, *range(10, 20))
    run()
    assert there.numbers(output) == [*range(20)]


def test_system_properties_of_the_client_have_kafkas_names(there: Streams) -> None:
    there.copy(there.topic(records=1), there.topic())
    system: Any = there.spark._jvm.System  # type: ignore[union-attr]
    # As start_session has set it, and as the client in the jar asks for it.
    given = system.getProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls")
    assert given
    asked = "io.eoskafka.shaded.kafka.sasl.oauthbearer.allowed.urls"
    assert system.getProperty(asked) == given


def test_a_wrong_password_is_an_error_that_does_not_show_it(
    there: Streams, secured: Secured
) -> None:
    options = _options(secured.clients["plain"])
    options["kafka.sasl.jaas.config"] = str(options["kafka.sasl.jaas.config"]).replace(
        PASSWORD, "another-one"
    )
    rows = kv(there.source(there.topic(records=1), options))
    error = there.failure(there.sink(rows, there.topic(), None, options))
    assert "SaslAuthenticationException" in error or "Authentication failed" in error
    assert "another-one" not in error


@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_commands_take_the_file_of_kafkas_own_tools(
    there: Streams, secured: Secured, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, group = secured.clients[kind], there.group()
    topic, output = there.topic(records=10), there.topic()
    options = {**_options(client), "kafka.group.id": group}
    there.run(there.sink(kv(there.source(topic, options)), output, None, _options(client)))
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{k}={v}\n" for k, v in client.items()), encoding="utf-8")
    asked = ["--bootstrap-servers", client["bootstrap.servers"], "--config", str(file)]
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["offsets", "lag", "--format", "json", *asked]))
    assert ended.value.code == 0
    assert group in json.dumps(json.loads(capsys.readouterr().out))
    proof = ["--input", topic, "--output", output, "--group", group, "--by", "digest"]
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["verify", *proof, *asked]))
    assert ended.value.code == 0, capsys.readouterr().err


def _options(client: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in client.items()}


def _stores(folder: Path) -> tuple[Path, Path]:
    """The broker's key, and its certificate for clients."""
    keys, trust = folder / "keys.p12", folder / "trust.pem"
    store = ["-keystore", str(keys), "-storepass", PASSWORD, "-alias", "broker"]
    for command in (
        [
            *("-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-validity", "30"),
            *("-ext", "san=ip:127.0.0.1"),
        ],
        ["-exportcert", "-rfc", "-file", str(trust)],
    ):
        subprocess.run(["keytool", *command, *store], check=True, capture_output=True, timeout=60)
    return keys, trust
