from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eoskafka import stamps

VECTORS = json.loads(Path(__file__).with_name("stamp_vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: repr(v["text"]))
def test_python_reads_a_stamp_as_the_connector_does(vector: dict[str, Any]) -> None:
    assert stamps.kind_of(vector["text"]) == vector["kind"]
    found = stamps.parse(vector["text"])
    if vector["kind"] == "ours":
        assert found == stamps.Stamp(
            stamps.Scope(vector["scope"]),
            vector["identity"],
            vector["topicId"],
            vector["sinkCluster"],
            vector["epoch"],
        )
    else:
        assert found is None


def test_no_metadata_is_no_stamp() -> None:
    assert stamps.kind_of(None) is stamps.Kind.NONE
