"""What DESIGN.md and the pages on tests name is there: code, files and tests."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONNECTOR = ROOT / "jvm-shim" / "connector" / "src"
PYTHON = ROOT / "python" / "eoskafka"
DESIGN = ROOT / "DESIGN.md"
PAGES = [DESIGN, *sorted((ROOT / "tests").rglob("README.md"))]
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
MEMBER = re.compile(r"(?P<type>[A-Z]\w+)\.(?P<member>[A-Za-z]\w+)")
TYPE = re.compile(r"(?:[A-Z][a-z0-9]+){2,}")
FILE = re.compile(r"(?:tests|python|jvm-shim|docs|conf|notebooks|release|reports)(?:/[\w.-]+)+/?")
TEST = re.compile(r"(?P<file>test_\w+\.py)::(?P<test>test_\w+)")
# Modules with helpers of a few lines.
SMALL = {"_json.py", "_spec.py", "_version.py"}


def names(page: Path) -> set[str]:
    """Everything on a page that is set as code, but for blocks."""
    return set(CODE.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))))


@cache
def sources() -> str:
    """The connector and its tests, the Python package, and what integration tests share."""
    files = [
        *CONNECTOR.rglob("*.java"),
        *PYTHON.rglob("*.py"),
        *(ROOT / "tests" / "integration" / "harness").glob("*.py"),
        ROOT / "tests" / "integration" / "streams.py",
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def is_unknown(name: str) -> bool:
    """Whether a name looks like a test, a member of a class, a class or a file, and is none."""
    if test := TEST.fullmatch(name):
        (file,) = (ROOT / "tests").rglob(test["file"])
        return f"\ndef {test['test']}(" not in file.read_text(encoding="utf-8")
    if member := MEMBER.fullmatch(name):
        files = list(CONNECTOR.rglob(f"{member['type']}.java"))
        text = files[0].read_text(encoding="utf-8") if files else sources()
        return not re.search(rf"\b{member['member']}\b", text)
    if TYPE.fullmatch(name):
        return not re.search(rf"\b{name}\b", sources())
    return bool(FILE.fullmatch(name)) and not (ROOT / name).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_is_there(page: Path) -> None:
    assert sorted(filter(is_unknown, names(page))) == []


@pytest.mark.parametrize(
    "name",
    [
        "GroupProgress.noSuchMethod",
        "NoSuchClass",
        "tests/no_such_folder",
        "test_pages.py::test_no_such_test",
    ],
)
def test_a_name_that_is_not_there_is_found(name: str) -> None:
    assert is_unknown(name)


def test_the_example_of_a_crash_test_is_one_of_the_tests() -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    crashes = ROOT / "tests" / "integration" / "test_task_scope_crashes.py"
    assert example in crashes.read_text(encoding="utf-8")


def test_the_page_on_tests_has_every_fault_point() -> None:
    constants = (CONNECTOR / "main/java/io/eoskafka/faults/FaultPoint.java").read_text("utf-8")
    points = set(re.findall(r'^  [A-Z_]+\("([a-z-]+)"\)', constants, re.MULTILINE))
    assert points
    assert points - names(ROOT / "tests" / "README.md") == set()
    harness = (ROOT / "tests" / "integration" / "harness" / "faults.py").read_text("utf-8")
    assert {point for point in points if f'"{point}"' not in harness} == set()


def test_the_file_map_has_every_package_of_the_connector() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
    packages = {path for path in (CONNECTOR / "main/java/io/eoskafka").iterdir() if path.is_dir()}
    assert {package.name for package in packages} - set(rows) == set()


def test_the_file_map_has_every_module_of_the_python_package() -> None:
    modules = {path.name for path in PYTHON.glob("*.py") if not path.name.startswith("__")}
    packages = {path.parent.name for path in PYTHON.glob("*/__init__.py")}
    assert (modules - SMALL | packages) - names(DESIGN) == set()
