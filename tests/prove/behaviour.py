"""Digests of what a test runs against: the same as long as that behaves the same."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from eoskafka._jar import sources_digest

# Comments, literals, words, and any other character but white space.
_JAVA = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\"{3}.*?\"{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\w+|\S""",
    re.DOTALL,
)


def connector_digest(root: Path) -> str:
    """Of what the jar is made of in this checkout."""
    return sources_digest(root, behaviour)


def package_digest(root: Path) -> str:
    """Of the Python package in this checkout."""
    digest = hashlib.sha256()
    for file in sorted((root / "python" / "eoskafka").rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def behaviour(file: Path) -> bytes:
    """The content of a source file without what cannot change what the connector does.

    That is a comment or white space in Java, and the text of an error message.
    """
    content = file.read_bytes()
    if file.suffix == ".java":
        tokens = _JAVA.findall(content.decode("utf-8"))
        return "\n".join(token for token in tokens if not token.startswith(("//", "/*"))).encode()
    if file.name == "errors.json":
        spec = json.loads(content)
        for condition in spec["conditions"].values():
            del condition["message"]
        return json.dumps(spec).encode()
    return content
