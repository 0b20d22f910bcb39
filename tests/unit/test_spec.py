"""The tables that both languages share: error conditions and options, against the Java sources."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from eoskafka import errors

ROOT = Path(__file__).parents[2]
JAVA = sorted((ROOT / "jvm-shim" / "connector" / "src" / "main" / "java").rglob("*.java"))
SPEC = ROOT / "python" / "eoskafka" / "spec"

# The only place in Python whose errors come from Spark: they are expressions of a plan.
RAISE_IN_PLANS = sorted((ROOT / "python" / "eoskafka" / "schemas").glob("*.py"))

CONDITION = re.compile(r'"(EOSKAFKA_[A-Z_]+)"')
PLACEHOLDER = re.compile(r"<([a-zA-Z]+)>")
RAISED = re.compile(r'EosKafkaException\.of\(\s*"(EOSKAFKA_[A-Z_]+)"\s*,\s*Map\.of\(')
ASKED_FOR = re.compile(
    r"(?:values\.(?:required|positive|bool|invalid)|options\.(?:get|getOrDefault|containsKey))"
    r'\(\s*"([^"]+)"'
)


def conditions() -> dict[str, dict[str, str]]:
    """Every error condition."""
    found = json.loads((SPEC / "errors.json").read_text(encoding="utf-8"))["conditions"]
    assert isinstance(found, dict)
    return found


def options() -> list[dict[str, str]]:
    """Every option."""
    found = json.loads((SPEC / "options.json").read_text(encoding="utf-8"))["options"]
    assert isinstance(found, list)
    return found


class Raise(NamedTuple):
    """One place that raises an error."""

    place: str
    condition: str
    values: set[str]


def raises() -> Iterator[Raise]:
    """Each `EosKafkaException.of("X", Map.of(...))`, with the names that it gives values for."""
    for file in JAVA:
        text = file.read_text(encoding="utf-8")
        for found in RAISED.finditer(text):
            arguments = split_arguments(text, found.end())
            names = {name.strip().strip('"') for name in arguments[::2] if name.strip()}
            yield Raise(file.name, found.group(1), names)


def split_arguments(text: str, start: int) -> list[str]:
    """The arguments of the call whose opening parenthesis is just before `start`."""
    arguments, depth, quoted, begin = [], 0, False, start
    for place in range(start, len(text)):
        char = text[place]
        if char == '"' and text[place - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([{":
            depth += 1
        elif char in ")]}" and depth:
            depth -= 1
        elif (char == "," and not depth) or char == ")":
            arguments.append(text[begin:place])
            begin = place + 1
            if char == ")":
                return arguments
    raise AssertionError("no end of the call")


def test_every_condition_in_the_sources_is_in_the_table_and_the_other_way_round() -> None:
    used = {
        name
        for file in (*JAVA, *RAISE_IN_PLANS)
        for name in CONDITION.findall(file.read_text(encoding="utf-8"))
    }
    assert used == set(conditions())


def test_every_error_gives_a_value_for_each_name_in_its_message() -> None:
    # A missing one would hide the error behind an IllegalArgumentException.
    table = conditions()
    incomplete = {
        (r.place, r.condition, name)
        for r in raises()
        for name in set(PLACEHOLDER.findall(table[r.condition]["message"])) - r.values
    }
    assert incomplete == set()
    assert len(list(raises())) > 30


@pytest.mark.parametrize("name", conditions())
def test_an_error_says_what_it_means_for_the_data(name: str) -> None:
    message = conditions()[name]["message"]
    assert message.endswith(".")
    assert not re.search(r"\b(TODO|FIXME)\b", message)
    said = r"(?i)nothing|lost|visible|written|read|aborted|skip|committed|done|took effect"
    assert re.search(said, message), message


def test_every_option_that_java_asks_for_is_in_the_table() -> None:
    names = {option["name"].lower() for option in options()}
    asked = {
        name
        for file in JAVA
        for name in ASKED_FOR.findall(file.read_text(encoding="utf-8"))
        if file.parent.name == "config"
    }
    assert {name for name in asked if name.lower() not in names} == set()


def test_every_available_option_is_asked_for_somewhere() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in JAVA)
    unused = [
        option["name"]
        for option in options()
        if option["status"] == "available" and f'"{option["name"]}"' not in text
    ]
    assert unused == []


@pytest.mark.parametrize("option", options(), ids=lambda option: option["name"])
def test_an_option_has_all_that_its_status_needs(option: dict[str, str]) -> None:
    assert option["status"] in {"available", "refused"}
    assert option["sides"]
    assert set(option["sides"]) <= {"source", "sink"}
    assert ("instead" in option) == (option["status"] == "refused")


# A broker's error for one partition alone, which no Kafka that is there to be tested gives.
NOT_TO_BE_CAUSED = {"EOSKAFKA_OFFSETS_UNREADABLE"}

NAMED = re.compile(r"\bEOSKAFKA_[A-Z_]*[A-Z]\b")


class Verdicts:
    """Which conditions a module of tests asserts on.

    Counted are those in what `assert` and `until` want, but for `"X" not in error`; in the `match`
    of `pytest.raises`; and in values that get into one of these under a name: variables, constants
    of the module, parameters of tests, arguments of the module's own functions. A condition that is
    only mentioned, in a comment or in a value that nobody compares, is not.
    """

    def __init__(self, text: str) -> None:
        self.conditions: set[str] = set()
        self._names: set[str] = set()
        module = ast.parse(text)
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
        compared = {function.name: self._of_function(function) for function in functions}
        self._follow(module.body)
        for call in ast.walk(module):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                for argument, is_compared in zip(
                    call.args, compared.get(call.func.id, ()), strict=False
                ):
                    if is_compared:
                        self._take(argument)

    def _of_function(self, function: ast.FunctionDef) -> list[bool]:
        """Which of its parameters it asserts on."""
        outer, self._names = self._names, set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assert):
                self._take(node.test)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "until":
                self._take(node.args[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises":
                for keyword in node.keywords:
                    if keyword.arg == "match":
                        self._take(keyword.value)
        self._follow(list(ast.walk(function)))
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and "parametrize" in ast.unparse(decorator.func):
                names, values = decorator.args[:2]
                if self._names & set(re.findall(r"\w+", ast.unparse(names))):
                    self._take(values)
        compared = [argument.arg in self._names for argument in function.args.args]
        self._names |= outer
        return compared

    def _follow(self, nodes: Sequence[ast.AST]) -> None:
        """Take what is assigned to names that are asserted on, until there are no more names."""
        count = -1
        while count != len(self._names):
            count = len(self._names)
            for node in nodes:
                if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    names = {
                        part.id
                        for target in targets
                        for part in ast.walk(target)
                        if isinstance(part, ast.Name)
                    }
                    if names & self._names:
                        self._take(node.value)

    def _take(self, expression: ast.expr) -> None:
        """Count the conditions in an expression, and remember its names."""
        unwanted = {
            node.left
            for node in ast.walk(expression)
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn)
        }
        for node in ast.walk(expression):
            if isinstance(node, ast.Name):
                self._names.add(node.id)
            elif isinstance(node, ast.Constant) and node not in unwanted:
                self.conditions |= set(NAMED.findall(str(node.value)))


@pytest.mark.parametrize(
    ("text", "is_asserted_on"),
    [
        ("def test():\n assert 'EOSKAFKA_X' in error()", True),
        ("def test():\n assert '[EOSKAFKA_X] because' in error()", True),
        ("def test():\n with pytest.raises(E, match='EOSKAFKA_X'): fail()", True),
        ("def test():\n until(lambda: 'EOSKAFKA_X' in log(), 'it', 5)", True),
        ("def test():\n wanted = 'EOSKAFKA_X'\n assert wanted in error()", True),
        ("C = {1: 'EOSKAFKA_X'}\ndef test():\n w = C[1]\n assert w in error()", True),
        ("@parametrize('w', ['EOSKAFKA_X'])\ndef test(w):\n assert w in error()", True),
        ("def fails(w):\n assert w in error()\ndef test():\n fails('EOSKAFKA_X')", True),
        ("def test():\n # EOSKAFKA_X\n assert error()", False),
        ("def test():\n 'EOSKAFKA_X'\n assert error()", False),
        ("def test():\n assert 'EOSKAFKA_X' not in error()", False),
        ("def test():\n assert 'EOSKAFKA_X_Y' in error()", False),
        ("def test():\n assert error(), 'EOSKAFKA_X'", False),
        ("def test():\n wanted = 'EOSKAFKA_X'\n assert error()", False),
        ("C = {1: 'EOSKAFKA_X'}\ndef test():\n w = C[1]\n assert error()", False),
        ("@parametrize('w', ['EOSKAFKA_X'])\ndef test(w):\n assert error()", False),
        ("def fails(w):\n assert error()\ndef test():\n fails('EOSKAFKA_X')", False),
    ],
)
def test_a_condition_counts_where_a_test_asserts_on_it(text: str, is_asserted_on: bool) -> None:
    assert ("EOSKAFKA_X" in Verdicts(text).conditions) is is_asserted_on


@pytest.fixture(scope="module")
def asserted_on() -> set[str]:
    """The conditions that tests on real brokers assert on."""
    files = [*(ROOT / "tests/integration").glob("*.py"), *(ROOT / "tests/faults").glob("*.py")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return set().union(*(Verdicts(text).conditions for text in texts))


@pytest.mark.parametrize("name", conditions())
def test_every_condition_is_asserted_on_in_a_test_with_brokers(
    name: str, asserted_on: set[str]
) -> None:
    if name in NOT_TO_BE_CAUSED or conditions()[name]["error"] == "InternalError":
        return
    assert name in asserted_on


@pytest.mark.parametrize("name", conditions())
def test_every_condition_has_a_class_of_the_tree(name: str) -> None:
    assert issubclass(getattr(errors, conditions()[name]["error"]), errors.EosKafkaError)


def test_no_generated_page_is_stale() -> None:
    command = [sys.executable, str(ROOT / "docs" / "make.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_page_of_errors_has_every_condition() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in conditions() if f"`{name}`" not in page] == []


@pytest.mark.parametrize("option", options(), ids=lambda option: option["name"])
def test_an_available_option_has_a_description_for_its_page(option: dict[str, str]) -> None:
    described = {"scope", "default", "description", "example"}
    assert described & option.keys() == (described if option["status"] == "available" else set())
    if option["status"] == "available":
        assert re.match(r"[A-Z].*\.$", option["description"]), option["description"]
        assert re.search(r"[^.]$", option["scope"])


DEFAULT = re.compile(
    r'values\.choice\(\s*"([^"]+)",\s*"([^"]+)"'
    r'|values\.bool\("([^"]+)", (true|false)\)'
    r'|options\.getOrDefault\("([^"]+)", "([^"]*)"\)'
    r'|values\.duration\("([^"]+)", "([^"]+)"\)'
    r'|values\.(?:positive|notNegative)\("([^"]+)"\)\.orElse\(([1-9][0-9_]*)\)'
)


def test_the_defaults_in_the_table_are_those_in_java() -> None:
    table = {option["name"]: option.get("default") for option in options()}
    found = {
        name: value.replace("_", "") if value[:1].isdigit() else value
        for file in JAVA
        if file.parent.name == "config"
        for groups in DEFAULT.findall(file.read_text(encoding="utf-8"))
        for name, value in zip(groups[::2], groups[1::2], strict=True)
        if name
    }
    assert len(found) > 12
    assert {name: table[name] for name in found} == found


def test_the_compatibility_table_is_of_what_is_built() -> None:
    page = json.loads((ROOT / "docs" / "compatibility.json").read_text(encoding="utf-8"))
    pom = (ROOT / "jvm-shim" / "pom.xml").read_text(encoding="utf-8")
    spark = re.search(r"<spark\.version>(\d+\.\d+)", pom)
    brokers = re.search(r"<kafka\.version>(\d+\.\d+)", pom)
    assert spark is not None
    assert brokers is not None
    assert spark.group(1) in {each["versions"] for each in page["spark"]}
    assert page["brokers"]["tested"] == brokers.group(1)
