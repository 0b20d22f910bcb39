"""Links in pages lead somewhere, and the first page stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "tests").rglob("README.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_the_first_screen_says_that_consumers_must_read_committed() -> None:
    first = "\n".join(README.read_text(encoding="utf-8").splitlines()[:12])
    assert "isolation.level=read_committed" in first
    assert "read_uncommitted" in first


def test_every_page_is_linked_from_the_readme_or_from_another_page() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in LINK.findall(page.read_text(encoding="utf-8"))
    }
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page not in linked] == []


def test_the_workflow_runs_what_ci_runs() -> None:
    workflows = ROOT / ".github" / "workflows"
    assert "run: .ci/run\n" in (workflows / "check.yml").read_text(encoding="utf-8")
    assert "run: make release\n" in (workflows / "release.yml").read_text(encoding="utf-8")
