"""Where commands get their tokens for OAUTHBEARER."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from eoskafka import properties
from eoskafka.errors import ConfigurationError, UnreachableError
from eoskafka.tokens import TokenProvider

SECRET = "geheim"


class Service:
    """Answers each request with what it is told to, and keeps the requests."""

    def __init__(self) -> None:
        self.answer: tuple[int, str] = 200, ""
        self.asked: list[tuple[str, str]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                service.asked.append((self.headers["Authorization"], body))
                self.send_response(service.answer[0])
                self.end_headers()
                self.wfile.write(service.answer[1].encode())

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def issue(self, lifetime_s: float) -> str:
        """Let it answer with a token that ends then."""
        claims = json.dumps({"exp": time.time() + lifetime_s, "sub": "me"}).encode()
        token = f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{len(self.asked)}"
        self.answer = 200, json.dumps({"access_token": token})
        return token


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Service()
    yield found
    found.server.shutdown()
    found.server.server_close()


def provider(**given: str) -> TokenProvider:
    """That of these settings of Java's client."""
    settings = {
        "sasl.mechanism": "OAUTHBEARER",
        **{k.replace("_", "."): v for k, v in given.items()},
    }
    found = properties.of_kafka_python(settings)["sasl_oauth_token_provider"]
    assert isinstance(found, TokenProvider)
    return found


def of(service: Service, **further: str) -> TokenProvider:
    return provider(
        sasl_oauthbearer_token_endpoint_url=service.url,
        sasl_oauthbearer_client_credentials_client_id="me",
        sasl_oauthbearer_client_credentials_client_secret=SECRET,
        **further,
    )


def test_a_token_is_asked_for_with_the_clients_credentials(service: Service) -> None:
    token = service.issue(60)
    assert of(service, sasl_oauthbearer_scope="read write").token() == token
    credentials = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert service.asked == [
        (f"Basic {credentials}", "grant_type=client_credentials&scope=read+write")
    ]


def test_credentials_may_be_in_the_jaas_line(service: Service) -> None:
    token = service.issue(60)
    found = provider(
        sasl_oauthbearer_token_endpoint_url=service.url,
        sasl_jaas_config=f"x.LoginModule required clientId='me' clientSecret=\"{SECRET}\";",
    )
    assert found.token() == token


def test_a_token_is_used_until_it_nears_its_end(service: Service) -> None:
    found = of(service)
    first = service.issue(60)
    assert [found.token(), found.token()] == [first, first]
    text, ends = found.for_librdkafka("")
    assert text == first
    assert 50 < ends - time.time() < 70
    assert len(service.asked) == 1
    other = of(service)
    ended = service.issue(-1)
    assert other.token() == ended
    service.issue(60)
    assert other.token() != ended


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, SECRET), "has refused the client me: HTTP 401"),
        ((200, "[]"), "has answered without a token"),
        ((200, SECRET), "has answered without a token"),
        ((200, '{"access_token": 1}'), "has answered without a token"),
    ],
)
def test_a_service_without_a_token_is_an_error(
    service: Service, answer: tuple[int, str], said: str
) -> None:
    service.answer = answer
    with pytest.raises(ConfigurationError, match=said) as refused:
        of(service).token()
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(of(service)._source)


def test_a_service_that_is_away_is_an_error(service: Service) -> None:
    service.server.shutdown()
    service.server.server_close()
    with pytest.raises(UnreachableError, match="could not be asked"):
        of(service).token()


def test_a_token_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    found = provider(sasl_oauthbearer_token_endpoint_url=file.as_uri())
    with pytest.raises(ConfigurationError, match="has no token"):
        found.token()
    file.write_text("t0ken\n", encoding="utf-8")
    assert found.token() == "t0ken"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sasl_oauthbearer_token_endpoint_url": "https://login.example.com/token"},
        {"sasl_jaas_config": f'x required unsecuredLoginStringClaim_sub="{SECRET}";'},
    ],
    ids=["nothing", "no credentials", "unsecured"],
)
def test_other_sources_of_tokens_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="with client credentials") as refused:
        provider(**given)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", [f"https://me:{SECRET}@host/token", f"http://[{SECRET}"])
def test_an_address_that_may_have_a_secret_in_it_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Nothing was asked of the brokers") as refused:
        provider(sasl_oauthbearer_token_endpoint_url=url)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_store_that_only_java_reads_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"/ca\.jks, which only Java reads"):
        provider(
            sasl_oauthbearer_token_endpoint_url="https://login.example.com/token",
            sasl_jaas_config="x required clientId=a clientSecret=b "
            'ssl.truststore.location="/ca.jks";',
        )
