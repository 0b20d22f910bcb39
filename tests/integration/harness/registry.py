"""`RegistryServer`: the documented requests of a schema registry, over HTTP, from memory."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

_VERSION = re.compile(r"/subjects/([^/]+)/versions/([^/]+)")
_TYPE = "application/vnd.schemaregistry.v1+json"


class Answer(NamedTuple):
    """What a request gets in place of what it has asked for.

    Attributes:
        status: of HTTP; 0 closes the connection, and 200 is what was asked for.
        after_s: how long it takes, in seconds.
    """

    status: int
    after_s: float = 0.0


class _Error(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RegistryServer:
    """Schemas by id, and subjects with their versions. All subjects share the ids.

    Args:
        user: and password that each request must have, with a colon between them.
        first_id: of the first schema that is registered.

    Attributes:
        faults: the answers of the next requests; then it answers as it should.
        requests: all that were made: method and path.
    """

    def __init__(self, user: str | None = None, first_id: int = 1) -> None:
        self.user = user
        self.faults: list[Answer] = []
        self.requests: list[str] = []
        self._next = first_id
        self._ids: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[RegistryServer]:
        """It answers inside the block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def add(self, subject: str, schema: Any, form: str = "AVRO", **more: Any) -> int:
        """Register a schema, as text or as what JSON makes of it; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return int(self._register(subject, {"schema": text, "schemaType": form, **more})["id"])

    def delete(self, subject: str, version: int) -> None:
        """Delete a version in the soft way: its id keeps its meaning."""
        self._subjects[subject][version - 1]["deleted"] = True

    def forget(self, subject: str) -> None:
        """Delete a subject for good: its versions begin at 1 again."""
        del self._subjects[subject]

    def count(self, subject: str) -> int:
        """How many versions the subject has."""
        return len(self._subjects.get(subject, ()))

    # ---- requests

    def answer(self, method: str, target: str, body: Any, authorization: str | None) -> Any:
        """What a request gets, as what JSON makes of it."""
        if self.user is not None:
            wanted = "Basic " + base64.b64encode(self.user.encode()).decode()
            if authorization != wanted:
                raise _Error(401, "Unauthorized")
        split = urlsplit(target)
        path, query = split.path, parse_qs(split.query)
        with_deleted = query.get("deleted", ["false"])[0].lower() == "true"
        with self._lock:
            if method == "GET":
                return self._get(path, with_deleted)
            parts = [unquote(part) for part in path.strip("/").split("/")]
            if parts[0] == "subjects" and parts[2:] == ["versions"]:
                return {"id": self._register(parts[1], body)["id"]}
            if parts[0] == "subjects" and len(parts) == 2:
                for each in self._versions(parts[1], with_deleted):
                    if self._ids[each["id"]]["schema"] == body["schema"]:
                        return self._described(each)
                raise _Error(40403, "Schema not found")
        raise _Error(404, "HTTP 404 Not Found")

    def _get(self, path: str, with_deleted: bool) -> Any:
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            if int(found[1]) not in self._ids:
                raise _Error(40403, f"Schema {found[1]} not found")
            return self._ids[int(found[1])]
        if found := re.fullmatch(r"/subjects/([^/]+)/versions", path):
            return [v["version"] for v in self._versions(unquote(found[1]), with_deleted)]
        if found := _VERSION.fullmatch(path):
            versions = self._versions(unquote(found[1]), with_deleted)
            if found[2] == "latest":
                return self._described(versions[-1])
            for each in versions:
                if str(each["version"]) == found[2]:
                    return self._described(each)
            raise _Error(40402, f"Version {found[2]} not found.")
        if path == "/subjects":
            return list(self._subjects)
        if path == "/schemas/types":
            return ["JSON", "PROTOBUF", "AVRO"]
        if re.fullmatch(r"/config(/[^/]+)?", path):
            return {"compatibilityLevel": "BACKWARD"}
        raise _Error(404, "HTTP 404 Not Found")

    def _versions(self, subject: str, with_deleted: bool) -> list[dict[str, Any]]:
        found = [
            each for each in self._subjects.get(subject, ()) if with_deleted or not each["deleted"]
        ]
        if not found:
            raise _Error(40401, f"Subject '{subject}' not found.")
        return found

    def _described(self, version: dict[str, Any]) -> dict[str, Any]:
        return {
            "subject": version["subject"],
            "version": version["version"],
            "id": version["id"],
            **self._ids[version["id"]],
        }

    def _register(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in body.items() if value}
        if kept.get("schemaType") == "AVRO":
            # As the registry does it: Avro is what a schema without a type is.
            del kept["schemaType"]
            try:
                json.loads(kept["schema"])
            except ValueError:
                raise _Error(42201, "Input schema is an invalid Avro schema") from None
        versions = self._subjects.setdefault(subject, [])
        ident = next((i for i, schema in self._ids.items() if schema == kept), self._next)
        for each in versions:
            if each["id"] == ident and not each["deleted"]:
                return each
        self._next = max(self._next, ident + 1)
        self._ids[ident] = kept
        versions.append(
            {"subject": subject, "version": len(versions) + 1, "id": ident, "deleted": False}
        )
        return versions[-1]


def _handler(server: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            server.requests.append(f"{self.command} {self.path}")
            fault = server.faults.pop(0) if server.faults else Answer(200)
            time.sleep(fault.after_s)
            if fault.status == 0:
                self.close_connection = True
                return
            if fault.status != 200:
                self._send(fault.status, {"error_code": 50001, "message": "on purpose"})
                return
            try:
                found = server.answer(
                    self.command, self.path, body, self.headers.get("Authorization")
                )
            except _Error as error:
                said = {"error_code": error.code, "message": str(error)}
                self._send(int(str(error.code)[:3]), said)
            else:
                self._send(200, found)

        do_GET = do_POST = _serve  # noqa: N815

        def _send(self, status: int, content: Any) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: Any) -> None:
            """Nothing: `requests` has them."""

    return Handler
