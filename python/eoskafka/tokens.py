"""Tokens for OAUTHBEARER: where the settings of Kafka's own client say that they come from."""

from __future__ import annotations

import base64
import http.client
import math
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from eoskafka import _json
from eoskafka.errors import ConfigurationError, UnreachableError

_TIMEOUT_S = 10
# The size of an answer: more than any token needs, and little enough to keep.
_MOST_BYTES = 1 << 20
# The share of a token's lifetime after which another one is fetched.
_USED_SHARE = 0.8
# The lifetime of a token that states none: a command is done in this time.
_UNKNOWN_S = 300.0


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens for kafka-python, and for librdkafka by `for_librdkafka`."""

    def __init__(self, source: TokenService | TokenFile) -> None:
        super().__init__()
        self._source = source
        self._token = ""
        self._ends = self._renews = 0.0

    def token(self) -> str:
        """A token that is good for some time; the same one while that is so.

        Raises:
            ConfigurationError: the service refuses these credentials, or the file has no token.
            UnreachableError: the service does not answer.
        """
        now = time.time()
        if now >= self._renews:
            self._token = self._source.fetch()
            self._ends = _end(self._token) or now + _UNKNOWN_S
            self._renews = now + _USED_SHARE * (self._ends - now)
        return self._token

    def for_librdkafka(self, _config: str) -> tuple[str, float]:
        """Its `oauth_cb`: a token, and when it ends in seconds since 1970."""
        return self.token(), self._ends


@dataclass(frozen=True)
class TokenService:
    """Client credentials (RFC 6749, section 4.4) for tokens.

    Attributes:
        url: of the service, https or http.
        client_id: who asks.
        secret: of that client. Never shown.
        scope: asked for, or empty.
        ca_file: PEM certificates that the service's is checked with; None: those of this machine.
    """

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    ca_file: str | None = None

    def fetch(self) -> str:
        """A new token."""
        asked = {
            "grant_type": "client_credentials",
            **({"scope": self.scope} if self.scope else {}),
        }
        credentials = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
        body = urllib.parse.urlencode(asked).encode()
        # `provider` takes http and https only.
        request = urllib.request.Request(self.url, body)  # noqa: S310
        # A redirect to another place must not carry the secret.
        request.add_unredirected_header("Authorization", f"Basic {credentials}")
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=_TIMEOUT_S, context=context
            ) as answer:
                content = answer.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            # Not what it says besides, which may hold the credentials.
            raise ConfigurationError(
                f"the token service at {self.url} has refused the client {self.client_id}: HTTP "
                f"{error.code}. Nothing was asked of the brokers. Check the client's id and secret"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(
                f"the token service at {self.url} could not be asked: {error}. Nothing was asked "
                "of the brokers. Check the address and the certificate of the service: the JAAS "
                "option ssl.truststore.location names a PEM file with the certificate of its "
                "authority"
            ) from None
        try:
            token = _json.parse(content)["access_token"]
        except (ValueError, KeyError, TypeError):
            token = None
        if not isinstance(token, str) or not token:
            raise ConfigurationError(
                f"the token service at {self.url} has answered without a token"
            )
        return token


@dataclass(frozen=True)
class TokenFile:
    """A token that something else writes into a file."""

    path: Path

    def fetch(self) -> str:
        """What the file has now."""
        try:
            token = self.path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            token = ""
        if not token:
            raise ConfigurationError(f"{self.path} cannot be read, or has no token")
        return token


def provider(settings: Mapping[str, str], jaas: Mapping[str, str]) -> TokenProvider:
    """The one that Kafka's own client would use with these settings.

    Args:
        settings: names with underscores for dots.
        jaas: the options of `sasl.jaas.config`, in which older clients have some of the settings.

    Raises:
        ConfigurationError: the settings name no source of tokens that is known here.
    """
    url = settings.get("sasl_oauthbearer_token_endpoint_url", "")
    parts = endpoint(url)
    scheme = parts.scheme
    if scheme == "file":
        path = urllib.request.url2pathname(parts.path)
        return TokenProvider(TokenFile(Path(path)))
    client = _first(
        settings.get("sasl_oauthbearer_client_credentials_client_id"), jaas.get("clientId")
    )
    secret = _first(
        settings.get("sasl_oauthbearer_client_credentials_client_secret"), jaas.get("clientSecret")
    )
    if scheme not in ("http", "https") or not client or not secret:
        raise ConfigurationError(
            "with sasl.mechanism=OAUTHBEARER, commands get tokens from a token service with client "
            "credentials, or from a file: set sasl.oauthbearer.token.endpoint.url (https, http or "
            "file), sasl.oauthbearer.client.credentials.client.id and "
            "sasl.oauthbearer.client.credentials.client.secret. For a token of another kind, write "
            "it to a file"
        )
    trust, kind = jaas.get("ssl.truststore.location"), jaas.get("ssl.truststore.type", "").upper()
    if trust and kind != "PEM":
        raise ConfigurationError(
            f"the JAAS option ssl.truststore.location is {trust}, which only Java reads: export it "
            'as PEM (keytool -exportcert -rfc), and give that file with ssl.truststore.type="PEM"'
        )
    scope = _first(settings.get("sasl_oauthbearer_scope"), jaas.get("scope"))
    return TokenProvider(TokenService(url, client, secret, scope, trust))


def endpoint(url: str) -> urllib.parse.SplitResult:
    """The parts of an address for tokens, which is shown in messages and to other processes.

    Raises:
        ConfigurationError: it is no URL, or has a user in it.
    """
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        # Without its cause, which shows a part of it.
        raise ConfigurationError(
            "sasl.oauthbearer.token.endpoint.url is no URL. Nothing was asked of the brokers. "
            "Correct it"
        ) from None
    if "@" in parts.netloc:
        raise ConfigurationError(
            "sasl.oauthbearer.token.endpoint.url has a user in it, and is not shown here because "
            "this may be a secret. Nothing was asked of the brokers. Give the user with "
            "sasl.oauthbearer.client.credentials.client.id and "
            "sasl.oauthbearer.client.credentials.client.secret"
        )
    return parts


def _first(*values: str | None) -> str:
    return next(filter(None, values), "")


def _end(token: str) -> float | None:
    """When a signed token (RFC 7519) ends; None if it is not one, or does not state its end."""
    try:
        claims = token.split(".")[1]
        found: Any = _json.parse(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        ends = float(found["exp"])
    except (IndexError, KeyError, OverflowError, TypeError, ValueError):
        return None
    return ends if math.isfinite(ends) else None
