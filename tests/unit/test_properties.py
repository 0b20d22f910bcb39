"""A user's client.properties, as the clients of the commands have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from eoskafka import properties
from eoskafka.errors import ConfigurationError

FILE = r"""
# Of the whole team.
! And this is a comment too.
bootstrap.servers=b:9092
security.protocol = SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="me" \
    password="a=b c";
ssl.truststore.location=/ca.pem
ssl.truststore.type=PEM
ssl.endpoint.identification.algorithm=
request.timeout.ms=5000
acks=all
group.id=somebody
"""


def test_a_file_of_kafkas_tools(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(FILE, encoding="utf-8")
    found = properties.of_kafka_python({}, properties.read(file))
    assert found == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "a=b c",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
        "request_timeout_ms": 5000,
    }
    assert properties.of_librdkafka(found) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "a=b c",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "socket.timeout.ms": 5000,
    }


def test_a_key_store_has_key_and_certificate() -> None:
    given = {"ssl.keystore.location": "/me.pem", "ssl.key.password": "p"}
    assert properties.of_kafka_python(given) == {
        "ssl_certfile": "/me.pem",
        "ssl_keyfile": "/me.pem",
        "ssl_password": "p",
    }


def test_names_of_kafka_python_go_through() -> None:
    given = {"ssl.cafile": "/ca", "api_version_auto_timeout_ms": "7", "x": "true"}
    found = {"ssl_cafile": "/ca", "api_version_auto_timeout_ms": 7, "x": True}
    assert properties.of_kafka_python(given) == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ssl.truststore.location": "/ca.jks"}, "keytool -exportcert -rfc"),
        ({"ssl.keystore.location": "/me.p12", "ssl.keystore.type": "PKCS12"}, "openssl pkcs12"),
        ({"ssl.keystore.key": "geheim"}, "ssl.keystore.key is read by Java's client only"),
        ({"ssl.truststore.certificates": "geheim"}, "Java's client only"),
        ({"sasl.mechanism": "GSSAPI", "sasl.jaas.config": "x key=geheim;"}, "Kerberos"),
        ({"sasl.jaas.config": "x.Krb5LoginModule required key=geheim;"}, "Kerberos"),
        (
            {"sasl.jaas.config": "x.OwnLoginModule required secret=geheim;"},
            "PLAIN, SCRAM and OAUTH",
        ),
    ],
    ids=["trust", "keys", "inline key", "inline trust", "kerberos", "kerberos by name", "login"],
)
def test_what_only_java_reads_is_refused(given: dict[str, str], said: str) -> None:
    for asked, in_file in ((given, {}), ({}, given)):
        with pytest.raises(ConfigurationError, match=said) as refused:
            properties.of_kafka_python(asked, in_file)
        assert "geheim" not in str(refused.value)


def test_a_store_in_the_file_gives_way_to_a_file_that_is_given() -> None:
    in_file = {
        "ssl.truststore.location": "/ca.jks",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "p",
    }
    given = {"ssl.cafile": "/ca", "ssl.certfile": "/me", "ssl_keyfile": "/key"}
    found = {"ssl_cafile": "/ca", "ssl_certfile": "/me", "ssl_keyfile": "/key"}
    assert properties.of_kafka_python(given, in_file) == found


def test_what_is_given_comes_before_the_file() -> None:
    in_file = {"security.protocol": "SSL", "request.timeout.ms": "1", "unknown": "x"}
    given = {"security_protocol": "SASL_SSL"}
    found = {"security_protocol": "SASL_SSL", "request_timeout_ms": 1}
    assert properties.of_kafka_python(given, in_file) == found


@pytest.mark.parametrize(
    ("of_java", "of_python", "from_java", "from_python"),
    [
        (
            {"ssl.endpoint.identification.algorithm": "https"},
            {"ssl_check_hostname": "false"},
            {"ssl_check_hostname": True},
            {"ssl_check_hostname": False},
        ),
        (
            {"ssl.truststore.location": "/new.pem"},
            {"ssl_cafile": "/old.pem"},
            {"ssl_cafile": "/new.pem"},
            {"ssl_cafile": "/old.pem"},
        ),
        (
            {"ssl.keystore.location": "/me.pem", "ssl.key.password": "p"},
            {"ssl_certfile": "/c.pem", "ssl_keyfile": "/k.pem", "ssl_password": "q"},
            {"ssl_certfile": "/me.pem", "ssl_keyfile": "/me.pem", "ssl_password": "p"},
            {"ssl_certfile": "/c.pem", "ssl_keyfile": "/k.pem", "ssl_password": "q"},
        ),
        (
            {"sasl.jaas.config": "x username=a password=b;"},
            {"sasl_plain_username": "c", "sasl_plain_password": "d"},
            {"sasl_plain_username": "a", "sasl_plain_password": "b"},
            {"sasl_plain_username": "c", "sasl_plain_password": "d"},
        ),
    ],
    ids=["host name", "trust", "keys", "login"],
)
def test_what_is_given_comes_before_the_file_also_under_another_name(
    of_java: dict[str, str],
    of_python: dict[str, str],
    from_java: dict[str, object],
    from_python: dict[str, object],
) -> None:
    assert properties.of_kafka_python(of_java, of_python) == from_java
    assert properties.of_kafka_python(of_python, of_java) == from_python


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.enabled.protocols", "TLSv1.3"),
        ("ssl.protocol", "TLSv1.1"),
        ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
        ("ssl.provider", "geheim"),
        ("security.providers", "com.example.FipsProvider"),
        ("ssl.engine.factory.class", "com.example.Engines"),
        ("sasl.client.callback.handler.class", "com.example.Handler"),
        ("sasl.login.callback.handler.class", "com.example.Handler"),
        ("sasl.login.class", "com.example.Login"),
        ("sasl.oauthbearer.jwt.retriever.class", "com.example.Retriever"),
        ("sasl.oauthbearer.assertion.file", "/assertion"),
        ("sasl.oauthbearer.header.urlencode", "true"),
        ("ssl.of.a.later.release", "x"),
    ],
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_setting_of_security_is_obeyed_or_refused(
    name: str, value: str, mechanism: str, tmp_path: Path
) -> None:
    login = {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": "x username=a password=b;",
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
    }
    properties.of_kafka_python({}, login)
    for asked, in_file in (({name: value}, login), (login, {name: value})):
        with pytest.raises(ConfigurationError, match=f"^{name} is read by Java") as refused:
            properties.of_kafka_python(asked, in_file)
        assert "geheim" not in str(refused.value)


def test_what_makes_no_connection_less_safe_may_be_in_a_file() -> None:
    package = "org.apache.kafka.common.security.oauthbearer"
    in_file = {
        "ssl.truststore.password": "p",
        "ssl.enabled.protocols": "TLSv1.2, TLSv1.3",
        "ssl.protocol": "TLSv1.3",
        "ssl.cipher.suites": "",
        "ssl.keymanager.algorithm": "PKIX",
        "sasl.login.retry.backoff.ms": "100",
        "sasl.login.callback.handler.class": f"{package}.secured.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.jwt.retriever.class": f"{package}.ClientCredentialsJwtRetriever",
        "sasl.oauthbearer.jwks.endpoint.url": "https://host/keys",
        "sasl.oauthbearer.scope": "of another mechanism",
    }
    assert properties.of_kafka_python({}, in_file) == {}


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_store_without_a_path_is_refused(name: str) -> None:
    kind = {name.replace("location", "type"): "PEM"}
    with pytest.raises(ConfigurationError, match=f"{name} is empty"):
        properties.of_kafka_python({name: "", **kind})


@pytest.mark.parametrize("name", ["ssl_ciphers", "proxy_url", "socks5_proxy", "security_x"])
def test_what_librdkafka_lacks_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} has no counterpart in librdkafka"):
        properties.of_librdkafka({name: "x"})


def test_the_options_of_a_login_are_read_as_kafka_reads_them() -> None:
    line = r"""x.PlainLoginModule required username=me password="a\"b\\c; d='e'";"""
    found = {"sasl_plain_username": "me", "sasl_plain_password": r"""a"b\c; d='e'"""}
    assert properties.of_kafka_python({"sasl.jaas.config": line}) == found


def test_config_providers_of_kafka_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("password=from the file\n", encoding="utf-8")
    (tmp_path / "name").write_text("from the folder", encoding="utf-8")
    monkeypatch.setenv("KEY_PASSWORD", "from the environment")
    package = "org.apache.kafka.common.config.provider"
    given = {
        "config.providers": "file, folder,env",
        "config.providers.file.class": f"{package}.FileConfigProvider",
        "config.providers.folder.class": f"{package}.DirectoryConfigProvider",
        "config.providers.env.class": f"{package}.EnvVarConfigProvider",
        "sasl.jaas.config": f'x username="${{folder:{tmp_path}:name}}" '
        f'password="${{file:{file}:password}}";',
        "ssl.key.password": "${env:KEY_PASSWORD}",
        "ssl.crlfile": "${other:x}",
    }
    assert properties.of_kafka_python(given) == {
        "sasl_plain_username": "from the folder",
        "sasl_plain_password": "from the file",
        "ssl_password": "from the environment",
        "ssl_crlfile": "${other:x}",
    }


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("x.VaultProvider", "${p:a:b}", "p \\(VaultProvider\\) is not known here"),
        ("x.EnvVarConfigProvider", "${p:NOT_SET_ANYWHERE}", "no value for ..p:NOT_SET_ANYWHERE"),
        ("x.FileConfigProvider", "${p:/none:b}", "/none cannot be read"),
        ("x.DirectoryConfigProvider", "${p:/none:b}", "no value for"),
    ],
)
def test_a_value_that_no_provider_has_is_refused(name: str, value: str, said: str) -> None:
    given = {"config.providers": "p", "config.providers.p.class": name, "ssl.password": value}
    with pytest.raises(ConfigurationError, match=said):
        properties.of_kafka_python(given)


def test_what_no_connection_depends_on_is_left_out() -> None:
    assert properties.of_librdkafka({"retry_backoff_ms": 7}) == {}


def test_a_password_is_a_text() -> None:
    given = {"sasl.plain.password": "00123", "ssl.password": "true"}
    found = {"sasl_plain_password": "00123", "ssl_password": "true"}
    assert properties.of_kafka_python(given) == found


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("a : 1\nb 2\nc=x\\u0041\\\\y \nd=\ne=1\\\n  # 2\ne.f\\=g=h\n", encoding="utf-8")
    found = {"a": "1", "b": "2", "c": "xA\\y", "d": "", "e": "1# 2", "e.f=g": "h"}
    assert properties.read(file) == found


def test_an_escape_without_its_digits_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("password=geheim\\users\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="write a backslash as") as refused:
        properties.read(file)
    assert refused.value.__cause__ is None
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("text", ["geheim", "=geheim"])
def test_a_line_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="a line that is not key=value") as refused:
        properties.read(file)
    assert "geheim" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        properties.read(tmp_path / "none")
