"""`LogIns`: one broker with a listener for each kind of log-in, and the settings of its clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker
from eoskafka.cluster.local import free_ports
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from harness.certificates import Authority
from harness.token_service import TokenService
from harness.waiting import until

USER = "job"
# One for each kind, so that a test that finds one somewhere knows where it comes from.
PLAIN_PASSWORD = "pl4in-Qw73-of-the-user"
SCRAM_PASSWORD = "scr4m-Hj52-of-the-user"
STORE_PASSWORD = "st0re-Tn66-of-the-user"
CLIENT_SECRET = "cl13nt-Vb90-of-the-user"
# Of another user, with what is quoted and escaped in one form or another.
QUOTED_USER = "quoted"
QUOTED_PASSWORD = "qu0ted-Rm41\"+'Yb67-of-the-user"
SECRETS = (PLAIN_PASSWORD, SCRAM_PASSWORD, STORE_PASSWORD, CLIENT_SECRET)
# Where a test session has PLAIN_PASSWORD: `sessions.py` sets it before the JVM starts.
VARIABLE = "EOSKAFKA_TEST_PASSWORD"

_SECURITY = "org.apache.kafka.common.security"
_PLAIN = f'{_SECURITY}.plain.PlainLoginModule required username="{USER}"'
_SCRAM = f'{_SECURITY}.scram.ScramLoginModule required username="{USER}"'
_OAUTH = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required"
_PROVIDER = "org.apache.kafka.common.config.provider"
# A system property of Kafka's clients, without its package.
ALLOWED_URLS = "sasl.oauthbearer.allowed.urls"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed"
# By the broker's settings; the first two listeners need no log-in.
_PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "MISNAMED": "SSL",
    "EXPIRED": "SSL",
    "PLAIN": "SASL_PLAINTEXT",
    "SCRAM": "SASL_SSL",
    "OAUTH": "SASL_SSL",
}


class LogIns:
    """A broker that runs, its users' secrets, and its token service.

    Attributes:
        cluster: it also listens without a log-in.
        clients: settings of Kafka's client by the kind of log-in.
        tokens: issues the tokens of `oauth`.
        authority: issues all certificates.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder, STORE_PASSWORD)
        self.broker_key = self.authority.issue("broker")
        self.client_key = self.authority.issue(USER)
        self.tokens = TokenService(USER, CLIENT_SECRET, self.broker_key.pem)
        named = [name for name in _PROTOCOLS if name not in ("PLAINTEXT", "CONTROLLER")]
        self._ports = dict(zip(named, free_ports(len(named)), strict=True))
        self.clients = {
            name: {"bootstrap.servers": f"127.0.0.1:{self._ports[listener]}", **settings}
            for name, (listener, settings) in self._clients().items()
        }
        self.cluster = LocalCluster(
            brokers=1, data_dir=folder / "cluster", properties=self._listeners
        )

    @contextmanager
    def running(self) -> Iterator[LogIns]:
        """Start and stop broker and token service."""
        with self.tokens:
            with java_options(self._java_options()):
                self.cluster.start()
            try:
                self.set_password(SCRAM_PASSWORD)
                yield self
            finally:
                self.cluster.stop()

    def options(self, kind: str, **further: str) -> dict[str, str]:
        """Of a source or sink with this log-in."""
        return {f"kafka.{name}": value for name, value in {**self.clients[kind], **further}.items()}

    def scram_by_file(self, file: Path) -> dict[str, str]:
        """The same for SCRAM, with the password that a properties file has under `password`."""
        place = f"${{file:{file}:password}}"
        return self.options(
            "scram",
            **{
                "sasl.jaas.config": f'{_SCRAM} password="{place}";',
                "config.providers": "file",
                "config.providers.file.class": f"{_PROVIDER}.FileConfigProvider",
            },
        )

    def restart_broker(self) -> None:
        """Which reads its certificates again, and all clients connect again."""
        (broker,) = self.cluster.brokers
        broker.terminate()
        with java_options(self._java_options()):
            broker.start()

    def secrets(self) -> list[str]:
        """What must be shown nowhere: passwords, tokens, and lines of private keys."""
        return [*SECRETS, *self.tokens.issued, *self.client_key.key().splitlines()[1:-1]]

    def set_password(self, password: str) -> None:
        """The SCRAM user's, from now on."""
        servers = self.cluster.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            changed = UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, password)
            found = admin.alter_user_scram_credentials([changed])
            assert found == {USER: None}, found
            # The controller has it then; the broker follows its log.
            until(
                lambda: not admin.describe_user_scram_credentials([USER])[USER]["error"],
                "the SCRAM user",
                20,
            )

    def _java_options(self) -> str:
        keys = self._keys()
        return f"-D{_ALLOWED}.urls={keys} -D{_ALLOWED}.files={keys}"

    def _keys(self) -> str:
        file = self.folder / "keys.json"
        file.write_text(self.tokens.keys(), encoding="utf-8")
        return file.as_uri()

    def _listeners(self, broker: Broker) -> dict[str, str]:
        ports = {"PLAINTEXT": broker.port, **self._ports}
        public = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        past = datetime.now(timezone.utc) - timedelta(days=1)
        certificates = {
            **dict.fromkeys(("TLS", "MUTUAL", "SCRAM", "OAUTH"), self.broker_key),
            "MISNAMED": self.authority.issue("misnamed", "elsewhere.example"),
            "EXPIRED": self.authority.issue("expired", ends=past),
        }
        settings = {
            "listeners": f"{public},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": public,
            "listener.security.protocol.map": ",".join(map(":".join, _PROTOCOLS.items())),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(self.authority.trust),
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": (
                f'{_PLAIN} user_{USER}="{PLAIN_PASSWORD}" '
                f"user_{QUOTED_USER}={in_quotes(QUOTED_PASSWORD)};"
            ),
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": (
                f"{_SECURITY}.scram.ScramLoginModule required;"
            ),
            # Who is logged in has to show again, within this time, that he still may.
            "listener.name.scram.scram-sha-512.connections.max.reauth.ms": "4000",
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{_OAUTH};",
            "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
                f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "listener.name.oauth.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self._keys(),
            "listener.name.oauth.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
            # As long as its token is good, and no longer.
            "listener.name.oauth.oauthbearer.connections.max.reauth.ms": "3600000",
            "listener.name.oauth.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "0",
        }
        for name, issued in certificates.items():
            prefix = f"listener.name.{name.lower()}.ssl.keystore"
            settings[f"{prefix}.type"] = "PEM"
            settings[f"{prefix}.location"] = str(issued.pem)
        return settings

    def _clients(self) -> dict[str, tuple[str, dict[str, str]]]:
        trust = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.trust),
        }
        tls = {"security.protocol": "SSL", **trust}
        plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        file = self.folder / "password.properties"
        file.write_text(f"password={PLAIN_PASSWORD}\n", encoding="utf-8")
        return {
            "plain": (
                "PLAIN",
                {**plain, "sasl.jaas.config": f'{_PLAIN} password="{PLAIN_PASSWORD}";'},
            ),
            "plain-quoted": ("PLAIN", {**plain, "sasl.jaas.config": plain_jaas(QUOTED_PASSWORD)}),
            "plain-file": (
                "PLAIN",
                {**plain, **_provided("file", "FileConfigProvider", f"{file}:password")},
            ),
            "plain-variable": (
                "PLAIN",
                {**plain, **_provided("env", "EnvVarConfigProvider", VARIABLE)},
            ),
            "scram": (
                "SCRAM",
                {
                    **trust,
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "SCRAM-SHA-512",
                    "sasl.jaas.config": f'{_SCRAM} password="{SCRAM_PASSWORD}";',
                },
            ),
            "oauth": (
                "OAUTH",
                {
                    **trust,
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "OAUTHBEARER",
                    # The service's certificate is looked for here, not among those of brokers.
                    "sasl.jaas.config": (
                        f'{_OAUTH} ssl.truststore.type="PEM" '
                        f'ssl.truststore.location="{self.authority.trust}";'
                    ),
                    "sasl.login.callback.handler.class": (
                        f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
                    ),
                    "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
                    "sasl.oauthbearer.client.credentials.client.id": USER,
                    "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
                },
            ),
            "tls": ("TLS", tls),
            "misnamed": ("MISNAMED", tls),
            "expired": ("EXPIRED", tls),
            "mutual-pem": (
                "MUTUAL",
                {
                    **tls,
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": str(self.client_key.pem),
                },
            ),
            "mutual-inline": (
                "MUTUAL",
                {
                    "security.protocol": "SSL",
                    "ssl.truststore.type": "PEM",
                    "ssl.truststore.certificates": self.authority.trust.read_text("utf-8"),
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.certificate.chain": self.client_key.chain(),
                    "ssl.keystore.key": self.client_key.key(),
                },
            ),
            **{
                f"mutual-{kind.lower()}": ("MUTUAL", self._stores(kind, store))
                for kind, store in (
                    ("JKS", self.client_key.jks()),
                    ("PKCS12", self.client_key.pkcs12),
                )
            },
        }

    def _stores(self, kind: str, keys: Path) -> dict[str, str]:
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": kind,
            "ssl.truststore.location": str(self.authority.trust_store(kind)),
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(keys),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
        }


def in_quotes(text: str) -> str:
    """A value of an option of a log-in module."""
    return '"' + text.replace('"', '\\"') + '"'


def plain_jaas(password: str, more: str = "") -> str:
    """A line for `sasl.jaas.config` of the user whose password has quotes.

    Args:
        more: further options of the log-in module, which does not know them.
    """
    named = _PLAIN.replace(f'"{USER}"', f'"{QUOTED_USER}"')
    return f"{named} password={in_quotes(password)} {more};"


def _provided(name: str, provider: str, place: str) -> dict[str, str]:
    return {
        "sasl.jaas.config": f'{_PLAIN} password="${{{name}:{place}}}";',
        "config.providers": name,
        f"config.providers.{name}.class": f"{_PROVIDER}.{provider}",
    }


@contextmanager
def java_options(options: str) -> Iterator[None]:
    """Of JVMs that are started inside the block."""
    former = os.environ.get("JAVA_TOOL_OPTIONS")
    os.environ["JAVA_TOOL_OPTIONS"] = options
    try:
        yield
    finally:
        if former is None:
            del os.environ["JAVA_TOOL_OPTIONS"]
        else:
            os.environ["JAVA_TOOL_OPTIONS"] = former
