"""release/requirements.txt pins what pyproject.toml asks for, with digests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
# Not in the extra `dev`, which a release is built with.
_APART = ("connect",)


def pins() -> dict[str, list[str]]:
    """The versions of each package; more than one if it depends on the version of Python."""
    found: dict[str, list[str]] = {}
    text = (ROOT / "release" / "requirements.txt").read_text(encoding="utf-8")
    for block in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
        if block.startswith("#"):
            continue
        pinned, *digests = block.split("--hash=sha256:")
        assert digests, block
        assert all(re.fullmatch(r"[0-9a-f]{64}\s*", digest) for digest in digests), block
        name, version = pinned.partition(";")[0].strip().split("==")
        found.setdefault(name, []).append(version)
    return found


def test_every_dependency_is_pinned_within_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from make_dependencies import python_requirements

    pinned = pins()
    for extra, requirements in python_requirements().items():
        if extra in _APART:
            continue
        for each in map(Requirement, requirements):
            if each.name == "eoskafka" or (each.marker and not each.marker.evaluate()):
                continue
            versions = pinned[canonicalize_name(each.name)]
            assert all(version in each.specifier for version in versions), (each, versions)


def test_a_release_is_built_with_the_pinned_packages() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "run: make pinned build\n" in workflow
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "install --quiet --require-hashes -r $(PINS)" in makefile
    assert "PINS := release/requirements.txt\n" in makefile
