"""What is public, as docs/versioning.md says, is what is listed in public_surface.json.

`make surface` writes the list again. A change of it is a change for users: CHANGELOG.md has to
say so.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import eoskafka
import eoskafka.cli
import pytest
from eoskafka import (
    _spec,
    dead_letters,
    doctor,
    errors,
    jobs,
    metrics,
    offsets,
    replay,
    schemas,
    transactions,
    upgrade,
)
from eoskafka.audit import Verdict
from eoskafka.cli.output import Exit
from eoskafka.metrics.prometheus import Collector

ROOT = Path(__file__).parents[2]
LISTING = Path(__file__).with_name("public_surface.json")
JAVA = ROOT / "jvm-shim" / "connector" / "src" / "main" / "java" / "io" / "eoskafka"
COMMANDS = Path(eoskafka.cli.__file__).parent

# What the JSON of a command is made of.
RECORDS: tuple[type, ...] = (
    doctor.Finding,
    jobs.Resolution,
    jobs.Settled,
    offsets.Adoption,
    offsets.Standing,
    replay.DeadLetter,
    transactions.Blocked,
    transactions.Transaction,
    upgrade.Report,
    Verdict,
)


def surface() -> dict[str, Any]:
    """Everything that is public, in the form of the list."""
    return {
        "options": {
            option["name"]: {
                key: option[key] for key in ("sides", "status", "takes", "default") if key in option
            }
            for option in _spec.read("options.json")["options"]
        },
        "conditions": {name: entry["error"] for name, entry in _spec.conditions().items()},
        "commands": dict(_commands()),
        "exit codes": {code.name: code.value for code in Exit},
        "JSON of commands": dict(_json_forms()),
        "records in JSON": _records(),
        "formats": dict(_formats()),
        "metrics": _metrics(),
        "Python": dict(_python()),
        "Java": _java(),
    }


def _commands() -> Iterator[tuple[str, dict[str, list[str]]]]:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_cli
    finally:
        sys.path.pop(0)
    for command in make_cli.commands():
        found = make_cli.parameters(command.function)
        yield command.name, {each.name: [each.takes, each.default] for each in found}


def _json_forms() -> Iterator[tuple[str, list[str]]]:
    """The keys that each command writes itself; `bench` is not public."""
    for file in sorted(COMMANDS.glob("*.py")):
        if file.name in ("bench.py", "bench_run.py", "output.py"):
            continue
        for function in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = {
                node.func.id
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            if "print_json" in calls or function.name == "_as_json":
                yield f"{file.stem}.{function.name}", list(_keys(function))


def _keys(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value


def _records() -> dict[str, Any]:
    found: dict[str, Any] = {}

    def add(kind: type) -> None:
        name = f"{_exporting_module(kind)}.{kind.__qualname__}"
        if name in found:
            return
        if issubclass(kind, enum.Enum):
            found[name] = [each.value for each in kind]
        elif dataclasses.is_dataclass(kind):
            found[name] = {each.name: str(each.type) for each in dataclasses.fields(kind)}
            for each in dataclasses.fields(kind):
                for word in re.findall(r"\w+", str(each.type)):
                    part = getattr(sys.modules[kind.__module__], word, None)
                    if inspect.isclass(part):
                        add(part)

    for kind in RECORDS:
        add(kind)
    return dict(sorted(found.items()))


def _exporting_module(kind: type) -> str:
    """The package that exports a class, or the module that has it if no package does."""
    package = kind.__module__.rpartition(".")[0]
    return (
        package
        if kind.__name__ in getattr(sys.modules[package], "__all__", ())
        else kind.__module__
    )


def _formats() -> Iterator[tuple[str, str]]:
    stamp = (JAVA / "identity" / "Stamp.java").read_text(encoding="utf-8")
    (form,) = re.findall(r"\{@code (eoskafka:<version>[^}]+)\}", stamp)
    yield "stamp", form
    yield "stamp's version", _one(r"int VERSION = (\d+);", stamp)
    topic = (JAVA / "decision" / "DecisionTopic.java").read_text(encoding="utf-8")
    yield "version of the decision topic's entries", _one(r"int VERSION = (\d+);", topic)
    table = (JAVA / "EosKafkaTable.java").read_text(encoding="utf-8")
    yield "headers of a dead letter", dead_letters.PREFIX + "*"
    yield "format name", _one(r'String NAME = "(\w+)";', table)


def _one(pattern: str, text: str) -> str:
    (found,) = re.findall(pattern, text)
    assert isinstance(found, str)
    return found


def _metrics() -> list[str]:
    """Those of progress reports and those of Prometheus."""
    java = "\n".join(file.read_text(encoding="utf-8") for file in sorted(JAVA.rglob("*.java")))
    own = "\n".join(
        (JAVA / file).read_text(encoding="utf-8")
        for file in ("sink/SinkMetrics.java", "source/ScanMetrics.java")
    )
    in_progress = {
        *re.findall(r'String NAME = "(\w+)"', own),
        *re.findall(r'values\.put\("(\w+)"', own),
        *re.findall(r'"(\w+OffsetsBehindLatest)"', java),
    }
    exported = Collector(cast(Any, SimpleNamespace(queries=list))).collect()
    return sorted([*in_progress, *(f"{each.name} ({each.type})" for each in exported)])


def _python() -> Iterator[tuple[str, str]]:
    for name in sorted(eoskafka.__all__):
        if name != "__version__":
            yield f"eoskafka.{name}", _signature(getattr(eoskafka, name))
    for name in sorted(errors.__all__):
        yield f"eoskafka.errors.{name}", _signature(getattr(errors, name))
    for name in sorted(schemas.__all__):
        yield f"eoskafka.schemas.{name}", _signature(getattr(schemas, name))
    for name in ("export", "instrument", "live"):
        yield f"eoskafka.metrics.{name}", _signature(getattr(metrics, name))


def _signature(of: Any) -> str:
    if inspect.isclass(of) and issubclass(of, Exception):
        return " < ".join(each.__name__ for each in of.__mro__[:-2])
    text = str(inspect.signature(of))
    if inspect.isclass(of):
        methods = [
            f"{name}{inspect.signature(each)}"
            for name, each in inspect.getmembers(of, inspect.isfunction)
            if not name.startswith("_")
        ]
        text = "; ".join([text, *methods])
    # Python's releases quote annotations in different ways.
    return re.sub("['\"]", "", text)


def _java() -> list[str]:
    """The classes that users name."""
    return [
        f"io.eoskafka.{name}" for name in ("EosKafkaPlugin",) if (JAVA / f"{name}.java").is_file()
    ]


@pytest.mark.parametrize("part", surface())
def test_nothing_public_has_changed_without_notice(part: str) -> None:
    listed = json.loads(LISTING.read_text(encoding="utf-8"))
    now = json.loads(json.dumps(surface()[part]))
    assert now == listed[part], (
        f"{part}: something public has changed. If it should, run `make surface` and say so in "
        "CHANGELOG.md"
    )


def test_the_list_has_all_that_is_public() -> None:
    found = surface()
    assert json.loads(LISTING.read_text(encoding="utf-8")).keys() == found.keys()
    assert all(found.values())


if __name__ == "__main__":
    LISTING.write_text(json.dumps(surface(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
