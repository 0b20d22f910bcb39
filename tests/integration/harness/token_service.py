"""A token service of the tests: client credentials (RFC 6749, 4.4) for signed tokens (RFC 7519)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

_KEY_ID = "tests"


class TokenService:
    """It listens on a port of its own from the start on; a context manager.

    Attributes:
        lifetime_s: of the tokens that it issues from now on; a negative one has ended already.
        is_away: whether it answers with errors.
        is_genuine: whether they are signed with the key that `keys` has.
        issued: the tokens so far.

    Args:
        certificate: its key and certificate, as PEM; None: without TLS.
        client_id, secret: who gets tokens, each with this id as its subject.
    """

    def __init__(self, client_id: str, secret: str, certificate: Path | None = None) -> None:
        self.lifetime_s = 3600
        self.is_away = False
        self.is_genuine = True
        self.issued: list[str] = []
        self._key, self._other_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        credentials = f"{client_id}:{secret}".encode()
        self._client_id = client_id
        self._expected = f"Basic {base64.b64encode(credentials).decode()}"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        scheme = "http"
        if certificate:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> TokenService:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def keys(self) -> str:
        """Its public key as brokers read it (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        key = {
            **{"kty": "RSA", "kid": _KEY_ID, "alg": "RS256", "use": "sig"},
            "n": _text(numbers.n.to_bytes(256, "big")),
            "e": _text(numbers.e.to_bytes(3, "big")),
        }
        return json.dumps({"keys": [key]})

    def token(self) -> str:
        """A token, as a client that has logged in gets one."""
        now = int(time.time())
        claims = {
            **{"iss": "tests", "aud": "kafka", "sub": self._client_id, "scope": "all"},
            **{"iat": now + min(0, self.lifetime_s) - 1, "exp": now + self.lifetime_s},
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (header, claims))
        key = self._key if self.is_genuine else self._other_key
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        self.issued.append(f"{signed}.{_text(signature)}")
        return self.issued[-1]

    def _answer(self, authorization: str, body: str) -> tuple[int, dict[str, Any]]:
        if self.is_away:
            return 503, {}
        if authorization != self._expected:
            return 401, {"error": "invalid_client", "error_description": "wrong credentials"}
        if parse_qs(body).get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        token = {"access_token": self.token(), "token_type": "Bearer"}
        return 200, {**token, "expires_in": self.lifetime_s, "scope": "all"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, answer = service._answer(self.headers.get("Authorization", ""), body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
