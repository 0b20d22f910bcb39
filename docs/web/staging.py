"""Which file of the repository becomes which page of the site, and what changes on the way.

The pages are written for GitHub. Sphinx gets copies of them (`stage`) in which links lead to pages
of the site, and what only GitHub or only the site needs is replaced. The table under *Further
reading* in the README is the navigation.
"""

from __future__ import annotations

import base64
import html
import importlib.metadata
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
ERRORS = ROOT / "docs" / "errors.md"

# Sections of the README that are of no use without a checkout.
LEFT_OUT = ("In a checkout",)
# Files that users copy or adapt; each that a page links to is shown on a page of its own.
SHOWN = (ROOT / "conf", ROOT / "notebooks", ROOT / "LICENSE", ROOT / "NOTICE")
_LANGUAGES = {
    ".conf": "text",
    ".json": "json",
    ".properties": "properties",
    ".py": "python",
    ".sh": "bash",
    ".yml": "yaml",
    "": "text",
}
_PICTURES = (".png", ".svg")

_FENCE = re.compile(r"^ *```.*?^ *```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_MADE = re.compile(r"Made from [^;]+ by `make docs`; do not edit\.\s*")
_MEMBERS = re.compile(r"<!-- site: (?P<directive>\w+) (?P<name>[\w.]+) -->")
_CONDITION = re.compile(r"^\*\*`(?P<name>EOSKAFKA_\w+)`\*\*", re.MULTILINE)
_MENTION = re.compile(r"(?<!\[)`(?P<name>EOSKAFKA_\w+)`(?!\])")
_NAMED_PAGE = re.compile(r"(?<![\w/(\[`])docs/(?P<name>[\w-]+)\.md\b")
_DIAGRAM = re.compile(r"^```mermaid\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Chapter(NamedTuple):
    """A part of the navigation: its name, and titles and files of its pages."""

    name: str
    pages: list[tuple[str, Path]]


def chapters() -> list[Chapter]:
    """The navigation, from the README's last table."""
    table = README.read_text(encoding="utf-8").partition("\n## Further reading\n")[2]
    found, seen = [], set()
    for name, cells in re.findall(r"^\| ([A-Z][^|]+) \| (.*) \|$", table, re.MULTILINE):
        pages = []
        for link in _LINK.finditer(cells):
            file = (ROOT / link["target"]).resolve()
            if file not in seen and "#" not in link["target"]:
                seen.add(file)
                pages.append((link["text"][0].upper() + link["text"][1:], file))
        found.append(Chapter(name, pages))
    return found


def reports() -> list[Path]:
    """What long tests and measurements have found."""
    return sorted((ROOT / "reports").glob("*.md"))


def name_of(file: Path) -> str:
    """The name of a file's page: its path on the site without `.html`."""
    if file == README:
        return "index"
    path = file.relative_to(ROOT)
    if file.is_dir():
        return f"{path}/index"
    if path.suffix not in (".md", ".ipynb"):
        return str(path)
    path = path.with_suffix("")
    if len(path.parts) == 1:
        # Apart from docs/, because SECURITY.md and docs/security.md are one name on some disks.
        return f"project/{path.name.lower()}"
    return str(path.relative_to("docs")) if path.parts[0] == "docs" else str(path)


def stage(folder: Path) -> bool:
    """Write everything that Sphinx reads, and remove what is there from an earlier time.

    Returns whether the navigation may have changed, which is on every page.
    """
    pages: dict[str, str] = {}
    copies: dict[Path, Path] = {}
    navigation = chapters()
    named = {file for chapter in navigation for _, file in chapter.pages} | set(reports())
    waiting = [README, *(file for chapter in navigation for _, file in chapter.pages), *reports()]
    while waiting:
        file = waiting.pop()
        if name_of(file) in pages:
            continue
        text, linked = _page(file)
        if file == README:
            text += _contents(navigation)
        elif file not in named:
            text = f"---\norphan: true\n---\n\n{text}"
        pages[name_of(file)] = text
        waiting += [each for each in linked if _has_page(each)]
        copies |= {folder / each.relative_to(ROOT): each for each in linked if _is_copied(each)}
    pages["reports/index"] = _list_of_reports()

    wanted = {folder / f"{name}.md": text for name, text in pages.items()}
    first = folder / "index.md"
    former = first.read_text(encoding="utf-8") if first.is_file() else None
    if folder.is_dir():
        for old in [path for path in folder.rglob("*") if path.is_file()]:
            if old not in wanted and old not in copies:
                old.unlink()
    for target, text in wanted.items():
        # A page that has not changed keeps its time, so that Sphinx does not read it again.
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    for target, file in copies.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    return former != pages["index"]


def _page(file: Path) -> tuple[str, list[Path]]:
    """The text of a page, and the files that it links to."""
    if file.is_dir():
        return _folder(file), []
    if file.suffix == ".ipynb":
        return localized(_notebook(file), file)
    if file.suffix != ".md":
        return f"# {file.name}\n\n{_shown(file)}", []
    text = file.read_text(encoding="utf-8")
    if file == README:
        for title in LEFT_OUT:
            text = without(text, title)
    if file == ERRORS:
        # An address for each of them.
        text = _CONDITION.sub(lambda each: f"({_label(each['name'])})=\n\n{each[0]}", text)
    text = _MADE.sub("", text)
    text = _MEMBERS.sub(_members, text)
    text = _DIAGRAM.sub(_diagram, text)
    return localized(text, file)


def without(text: str, title: str) -> str:
    """A page without one of its sections."""
    pattern = rf"^## {re.escape(title)}\n.*?(?=^## )"
    shorter, found = re.subn(pattern, "", text, flags=re.MULTILINE | re.DOTALL)
    if found != 1:
        raise ValueError(f"the README has no section {title!r}, which the site leaves out")
    return shorter


def localized(text: str, file: Path) -> tuple[str, list[Path]]:
    """A page whose links lead to pages of the site, and the files that it links to.

    A file that is not on the site becomes a link to the repository if `project.urls` of
    pyproject.toml says where that is, and otherwise its path.
    """
    linked = []

    def replace(link: re.Match[str]) -> str:
        path, _, anchor = link["target"].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link[0]
        target = (file.parent / path).resolve()
        if not target.exists():
            raise ValueError(f"{file.relative_to(ROOT)}: {link['target']} does not exist")
        if target == ROOT / "docs":
            target = README
        if _has_page(target):
            on_site = f"{name_of(target)}.md"
        elif _is_copied(target):
            on_site = str(target.relative_to(ROOT))
        else:
            return _elsewhere(link["text"], target)
        linked.append(target)
        relative = os.path.relpath(on_site, Path(f"{name_of(file)}.md").parent)
        text = link["text"]
        if Path(text).name == target.name and _has_page(target):
            text = _titles().get(target) or text
        return f"{link['picture']}[{text}]({relative}{'#' if anchor else ''}{anchor})"

    def named(mention: re.Match[str]) -> str:
        target = ROOT / "docs" / f"{mention['name']}.md"
        relative = os.path.relpath(f"{name_of(target)}.md", Path(f"{name_of(file)}.md").parent)
        return f"[{_titles()[target]}]({relative})" if target in _titles() else mention[0]

    def prose(part: str) -> str:
        return _linked_conditions(_NAMED_PAGE.sub(named, _LINK.sub(replace, part)), file)

    return "".join(part if is_block else prose(part) for part, is_block in _parts(text)), linked


@cache
def _titles() -> dict[Path, str]:
    """What stands for the name of a file in a text: its title in the navigation."""
    return {
        **{file: _first_line(file) for file in reports()},
        **{file: title for chapter in chapters() for title, file in chapter.pages},
        README: "The first page",
    }


def _first_line(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _linked_conditions(text: str, file: Path) -> str:
    """A text in which each name of an error condition is a link to its description."""
    if file == ERRORS:
        return text
    known = _conditions()

    def replace(mention: re.Match[str]) -> str:
        name = mention["name"]
        return f"[`{name}`](#{_label(name)})" if name in known else mention[0]

    return "".join(
        line if line.startswith("#") else _MENTION.sub(replace, line)
        for line in text.splitlines(keepends=True)
    )


@cache
def _conditions() -> frozenset[str]:
    return frozenset(_CONDITION.findall(ERRORS.read_text(encoding="utf-8")))


def _label(condition: str) -> str:
    return condition.lower().replace("_", "-")


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The blocks of code, which have no links, and what is between them."""
    at = 0
    for block in _FENCE.finditer(text):
        yield text[at : block.start()], False
        yield block[0], True
        at = block.end()
    yield text[at:], False


def _has_page(target: Path) -> bool:
    return target.suffix in (".md", ".ipynb") or (
        any(target.is_relative_to(each) for each in SHOWN)
        and (target.is_dir() or target.suffix in _LANGUAGES)
    )


def _is_copied(target: Path) -> bool:
    return target.suffix in _PICTURES or (
        target.is_relative_to(ROOT / "reports") and target.is_file() and not _has_page(target)
    )


def _elsewhere(text: str, target: Path) -> str:
    path = target.relative_to(ROOT)
    if address := repository():
        return f"[{text}]({address}/blob/main/{path})"
    return f"`{path}`" if text.strip("`") in (target.name, str(path)) else f"{text} (`{path}`)"


def repository() -> str | None:
    """The address of the repository, if pyproject.toml has it as the URL `Repository`."""
    urls = importlib.metadata.metadata("eoskafka").get_all("Project-URL") or ()
    for each in urls:
        label, _, url = str(each).partition(", ")
        if label == "Repository":
            return url.rstrip("/")
    return None


def _shown(file: Path) -> str:
    path = file.relative_to(ROOT)
    text = file.read_text(encoding="utf-8").rstrip()
    return f"`{path}` in the repository:\n\n~~~~{_LANGUAGES[file.suffix]}\n{text}\n~~~~\n"


def _folder(folder: Path) -> str:
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in _LANGUAGES]
    parts = [f"## {file.relative_to(folder)}\n\n{_shown(file)}" for file in files if file.is_file()]
    return f"# {folder.relative_to(ROOT)}\n\n" + "\n".join(parts)


def _notebook(file: Path) -> str:
    """A notebook with the results of its last run."""
    parts = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"~~~~python\n{source}\n~~~~")
        parts += _results(cell["outputs"])
    return "\n\n".join(parts) + "\n"


def _results(outputs: Iterable[dict[str, object]]) -> Iterator[str]:
    for output in outputs:
        data = output.get("data", {"text/plain": output.get("text", "")})
        assert isinstance(data, dict)
        if picture := data.get("image/png"):
            # Decoded once, so that a damaged one is found here.
            base64.b64decode("".join(picture))
            image = "".join(picture).replace("\n", "")
            yield f'<p><img alt="a plot" src="data:image/png;base64,{image}"></p>'
        else:
            yield f"~~~~text\n{''.join(data['text/plain']).rstrip()}\n~~~~"


def _diagram(block: re.Match[str]) -> str:
    """A diagram, which a script of the site draws."""
    return f'<pre class="mermaid">\n{html.escape(block["text"], quote=False)}</pre>'


def _members(comment: re.Match[str]) -> str:
    """What autodoc makes of a class or function."""
    directive = f".. {comment['directive']}:: {comment['name']}"
    return f"```{{eval-rst}}\n.. highlight:: python\n{directive}\n```"


def _contents(navigation: Iterable[Chapter]) -> str:
    parts = []
    for chapter in navigation:
        lines = [f"{title} <{name_of(file)}>" for title, file in chapter.pages if _has_page(file)]
        parts.append(_toctree(lines, f":caption: {chapter.name}"))
    # Of the last chapter.
    parts[-1] = parts[-1].replace("\n```\n", "\nReports <reports/index>\n```\n")
    return "".join(parts)


def _toctree(lines: Iterable[str], *options: str) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", *lines, "```", ""])


def _list_of_reports() -> str:
    rows = [f"- [{_first_line(file)}]({file.name})\n" for file in reports()]
    return (
        "# Reports\n\nEach page says what a long test or a measurement found when it last ran.\n\n"
        + "".join(rows)
        + _toctree([file.stem for file in reports()])
    )
