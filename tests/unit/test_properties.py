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
    found = properties.of_file(file)
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
        ({"ssl.truststore.location": "/ca.jks"}, "export it as PEM"),
        ({"sasl.jaas.config": "OAuthBearerLoginModule required secret=geheim;"}, "PLAIN and SCRAM"),
    ],
    ids=["store", "login"],
)
def test_what_only_java_reads_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        properties.of_kafka_python(given)
    assert "geheim" not in str(refused.value)


def test_a_setting_without_a_counterpart_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ssl_ciphers has no counterpart in librdkafka"):
        properties.of_librdkafka({"ssl_ciphers": "x"})
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
