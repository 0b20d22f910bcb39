"""HTTP in front of an object store: it fails, delays or holds one kind of request, and counts."""

from __future__ import annotations

import enum
import http.client
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote

_HOST = "127.0.0.1"
_TIMEOUT_S = 30.0
_SLOW_S = 3.0
_HELD_S = 120.0
_HOP = {"connection", "transfer-encoding", "keep-alive"}
_ERROR = "<Error><Code>{code}</Code><Message>made by a test</Message></Error>"
# More requests than a client makes before it gives up.
ALL = 1_000_000


class Fault(enum.Enum):
    """What becomes of a request."""

    BUSY = "503, as from a store that wants to be asked less often; nothing was done"
    BROKEN = "500; nothing was done"
    RESET = "the connection is closed; nothing was done"
    LOST = "done, and the connection is closed without an answer"
    SLOW = "done after three seconds"
    CUT = "the answer ends in the middle of its content"
    HELD = "done when the test says so"


class Kind(enum.Enum):
    """Of a request; `COPY` is a rename's, which is a PUT in the protocol."""

    PUT = "PUT"
    COPY = "COPY"
    GET = "GET"
    HEAD = "HEAD"
    DELETE = "DELETE"
    LIST = "LIST"


@dataclass
class Rule:
    """One fault for requests of a kind whose key matches.

    Attributes:
        taken: how many requests it was done to.
        reached: is set with the first.
        go_on: lets what is held go to the store.
    """

    kind: Kind
    key: re.Pattern[str]
    fault: Fault
    left: int
    taken: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)


class StoreProxy:
    """Until the block ends; it passes on what no rule is for.

    Args:
        port: the store's.
    """

    def __init__(self, port: int) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            target = port
            rules = proxy

        self._server = ThreadingHTTPServer((_HOST, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{_HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> StoreProxy:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.mend()
        self._server.shutdown()
        self._server.server_close()

    def arm(self, fault: Fault, kind: Kind, key: str, count: int = 1) -> Rule:
        """From now on the next requests of a kind whose key, decoded, has this pattern."""
        rule = Rule(kind, re.compile(key), fault, count)
        with self._lock:
            self._rules.append(rule)
        return rule

    def mend(self) -> None:
        """No more faults; what is held goes on."""
        with self._lock:
            for rule in self._rules:
                rule.go_on.set()
            self._rules.clear()

    def take(self, kind: Kind, key: str) -> Rule | None:
        """The rule for a request, which counts it."""
        with self._lock:
            for rule in self._rules:
                if rule.kind is kind and rule.left and rule.key.search(key):
                    rule.left -= 1
                    rule.taken += 1
                    rule.reached.set()
                    return rule
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: int
    rules: StoreProxy

    def do_GET(self) -> None:
        self._handle()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """To nobody."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        rule = self.rules.take(self._kind(), self._key())
        fault = rule.fault if rule else None
        if fault is Fault.RESET:
            self._close()
            return
        if fault in (Fault.BUSY, Fault.BROKEN):
            self._refuse(fault)
            return
        if fault is Fault.SLOW:
            time.sleep(_SLOW_S)
        if fault is Fault.HELD and rule:
            rule.go_on.wait(_HELD_S)
        status, headers, content = self._ask(body)
        if rule:
            rule.done.set()
        if fault is Fault.LOST:
            self._close()
            return
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault is Fault.CUT else content)
        if fault is Fault.CUT:
            self._close()

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """What the store answers."""
        connection = http.client.HTTPConnection(_HOST, self.target, timeout=_TIMEOUT_S)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() not in _HOP | {"expect"}:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _refuse(self, fault: Fault) -> None:
        status, code = (503, "SlowDown") if fault is Fault.BUSY else (500, "InternalError")
        content = b"" if self.command == "HEAD" else _ERROR.format(code=code).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _close(self) -> None:
        self.wfile.flush()
        self.close_connection = True

    def _kind(self) -> Kind:
        if self.command == "PUT" and "x-amz-copy-source" in self.headers:
            return Kind.COPY
        if self.command == "GET" and "prefix=" in self.path:
            return Kind.LIST
        # Many objects are deleted with one POST.
        return Kind.DELETE if self.command == "POST" else Kind(self.command)

    def _key(self) -> str:
        path, _, query = self.path.partition("?")
        listed = re.search(r"prefix=([^&]*)", query)
        return unquote(listed[1] if self._kind() is Kind.LIST and listed else path)
