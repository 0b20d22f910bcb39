"""The site's pages: what becomes of links, and what no page may load."""

from __future__ import annotations

import re
from pathlib import Path

import make_site
import pytest
import staging

ROOT = Path(__file__).parents[2]
OPERATIONS = ROOT / "docs" / "operations.md"


def on_site(text: str, file: Path = OPERATIONS) -> str:
    return staging.localized(text, file)[0]


def test_every_page_is_in_the_navigation() -> None:
    listed = {file for chapter in staging.chapters() for _, file in chapter.pages}
    assert sorted({*(ROOT / "docs").glob("*.md")} - listed) == []


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a page](options.md#slots)", "[a page](options.md#slots)"),
        ("[options.md](options.md)", "[Options](options.md)"),
        ("[the\ndesign](../DESIGN.md#glossary)", "[the\ndesign](project/design.md#glossary)"),
        ("[the pages](../docs)", "[the pages](index.md)"),
        ("[rights](../conf/acls-task-scope.sh)", "[rights](conf/acls-task-scope.sh.md)"),
        ("[settings](../conf/spark-defaults)", "[settings](conf/spark-defaults/index.md)"),
        ("![a plot](../reports/handover.png)", "![a plot](reports/handover.png)"),
        ("see docs/options.md.", "see [Options](options.md)."),
        ("`docs/options.md`", "`docs/options.md`"),
        ("docs/no-page.md", "docs/no-page.md"),
        ("[below](#stopping-a-query)", "[below](#stopping-a-query)"),
        ("[Kafka](https://kafka.apache.org)", "[Kafka](https://kafka.apache.org)"),
        ("`EOSKAFKA_DATA_LOSS`", "[`EOSKAFKA_DATA_LOSS`](#eoskafka-data-loss)"),
        ("`EOSKAFKA_NO_CONDITION`", "`EOSKAFKA_NO_CONDITION`"),
        ("### `EOSKAFKA_DATA_LOSS`", "### `EOSKAFKA_DATA_LOSS`"),
        ("```\n[no link](nowhere.md)\n```", "```\n[no link](nowhere.md)\n```"),
    ],
)
def test_a_link_leads_to_a_page_of_the_site(link: str, expected: str) -> None:
    assert on_site(link) == expected


def test_a_file_that_is_not_on_the_site_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "repository", lambda: None)
    assert on_site("[this test](../tests/conftest.py)") == "this test (`tests/conftest.py`)"
    assert on_site("[`conftest.py`](../tests/conftest.py)") == "`tests/conftest.py`"
    monkeypatch.setattr(staging, "repository", lambda: "https://example.org/eoskafka")
    assert (
        on_site("[this test](../tests/conftest.py)")
        == "[this test](https://example.org/eoskafka/blob/main/tests/conftest.py)"
    )


def test_a_link_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"docs/operations\.md: nowhere\.md does not exist"):
        on_site("[a page](nowhere.md)")


def test_a_section_that_is_left_out_must_exist() -> None:
    assert staging.without("# A\n\n## B\n\nb\n\n## C\n\nc\n", "B") == "# A\n\n## C\n\nc\n"
    with pytest.raises(ValueError, match="'D'"):
        staging.without("# A\n\n## B\n\nb\n\n## C\n\nc\n", "D")


def test_all_pages_are_made_and_old_ones_removed(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("# Old\n", encoding="utf-8")
    assert staging.stage(tmp_path)
    assert not staging.stage(tmp_path), "nothing has changed"
    made = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.md")}
    assert {"index.md", "options.md", "project/design.md", "reports/index.md"} < made
    assert {"notebooks/walkthrough.md", "conf/databricks/index.md"} < made
    assert "old.md" not in made
    first = (tmp_path / "index.md").read_text(encoding="utf-8")
    # Parts that only make sense on GitHub, and only on the site.
    assert "make demo" not in first
    assert ":caption: Reference" in first
    assert '<pre class="mermaid">' in (tmp_path / "project" / "design.md").read_text("utf-8")
    assert ".. autoclass:: eoskafka.Sink" in (tmp_path / "api.md").read_text("utf-8")
    conditions = re.findall(r"^\(eoskafka-[a-z-]+\)=$", (tmp_path / "errors.md").read_text(), re.M)
    assert len(conditions) > 50


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<link href="https://example.org/a.css" rel="stylesheet">',
        '<link rel="preconnect" href="https://example.org">',
        '<img alt="" src="//example.org/a.png">',
        '@import "https://example.org/a.css";',
        "src: url(https://example.org/a.woff2)",
    ],
)
def test_what_a_page_would_load_from_another_host_is_found(text: str, tmp_path: Path) -> None:
    suffix = "html" if text.startswith("<") else "css"
    (tmp_path / f"page.{suffix}").write_text(text, encoding="utf-8")
    assert len(make_site.outside(tmp_path)) == 1


def test_links_and_files_of_the_site_itself_may_be_in_a_page(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://kafka.apache.org">Kafka</a><script src="_static/a.js"></script>'
        '<img src="data:image/png;base64,aaaa"><link href="a.css" rel="stylesheet">',
        encoding="utf-8",
    )
    assert make_site.outside(tmp_path) == []
