"""`OtlpReceiver`: takes what an OTLP exporter sends over HTTP."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class OtlpReceiver:
    """A server on a port of its own; a context manager.

    Attributes:
        url: of the server.
        taken: path and body of each request.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.taken))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def first(self, path: str) -> bytes:
        """The body of the first request to a path."""
        return next(body for taken, body in self.taken if taken == path)

    def __enter__(self) -> OtlpReceiver:
        threading.Thread(target=self._server.serve_forever).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(taken: list[tuple[str, bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler
