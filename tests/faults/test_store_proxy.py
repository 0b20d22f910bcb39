"""The proxy in front of an object store does what a rule says, and nothing else."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from faults.store_proxy import Fault, Kind, StoreProxy

CONTENT = b"what was written"


class _Store(BaseHTTPRequestHandler):
    """Keeps one object for each path."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(self.objects.get(self.path, b""))

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """To nobody."""


@pytest.fixture
def objects() -> dict[str, bytes]:
    """What the store has."""
    return {}


@pytest.fixture
def proxy(objects: dict[str, bytes]) -> Iterator[StoreProxy]:
    """In front of a small store."""
    handler = type("Store", (_Store,), {"objects": objects})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as store:
        threading.Thread(target=store.serve_forever, args=(0.05,), daemon=True).start()
        with StoreProxy(store.server_address[1]) as proxy:
            yield proxy
        store.shutdown()


def call(proxy: StoreProxy, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Status and content; HTTPException or ConnectionError if there is no whole answer."""
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_what_no_rule_is_for_goes_through(proxy: StoreProxy) -> None:
    rule = proxy.arm(Fault.BROKEN, Kind.PUT, "/other$")
    assert call(proxy, "PUT", "/b/one", CONTENT) == (200, b"")
    assert call(proxy, "GET", "/b/one") == (200, CONTENT)
    assert rule.taken == 0


@pytest.mark.parametrize(("fault", "status"), [(Fault.BUSY, 503), (Fault.BROKEN, 500)])
def test_a_refused_request_is_not_done(
    proxy: StoreProxy, objects: dict[str, bytes], fault: Fault, status: int
) -> None:
    rule = proxy.arm(fault, Kind.PUT, "/one$")
    assert call(proxy, "PUT", "/b/one", CONTENT)[0] == status
    assert objects == {}
    assert call(proxy, "PUT", "/b/one", CONTENT)[0] == 200
    assert rule.taken == 1


@pytest.mark.parametrize(("fault", "is_done"), [(Fault.RESET, False), (Fault.LOST, True)])
def test_a_request_without_an_answer(
    proxy: StoreProxy, objects: dict[str, bytes], fault: Fault, is_done: bool
) -> None:
    proxy.arm(fault, Kind.PUT, "/one$")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        call(proxy, "PUT", "/b/one", CONTENT)
    assert objects == ({"/b/one": CONTENT} if is_done else {})


def test_an_answer_that_is_cut(proxy: StoreProxy) -> None:
    call(proxy, "PUT", "/b/one", CONTENT)
    proxy.arm(Fault.CUT, Kind.GET, "/one$")
    with pytest.raises(http.client.IncompleteRead):
        call(proxy, "GET", "/b/one")


def test_a_held_request_is_done_when_it_may(proxy: StoreProxy, objects: dict[str, bytes]) -> None:
    rule = proxy.arm(Fault.HELD, Kind.PUT, "/one$")
    asking = threading.Thread(target=call, args=(proxy, "PUT", "/b/one", CONTENT))
    asking.start()
    assert rule.reached.wait(10)
    assert objects == {}
    rule.go_on.set()
    asking.join(10)
    assert rule.done.is_set()
    assert objects == {"/b/one": CONTENT}
