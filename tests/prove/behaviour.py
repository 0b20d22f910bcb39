"""What of a source file can change what the connector does."""

from __future__ import annotations

import json
import re
from pathlib import Path

# Comments, literals, words, and any other character but white space.
_JAVA = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\"{3}.*?\"{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\w+|\S""",
    re.DOTALL,
)


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
