"""docs/guarantees.md names what is there: each mutation's test, code, error conditions."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
JAVA = ROOT / "jvm-shim" / "connector" / "src" / "main" / "java"
JVM_TESTS = ROOT / "jvm-shim" / "connector" / "src" / "test" / "java"
ERRORS = ROOT / "python" / "eoskafka" / "spec" / "errors.json"
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
JVM_TEST = re.compile(r"`(\w+Test)`")
CODE = re.compile(r"`([A-Z]\w+)\.([a-z]\w+)`")
PATCH_JVM_TEST = re.compile(r"^# test: io\.eoskafka\.(?:\w+\.)*(\w+Test)#", re.MULTILINE)
PATCH_TEST = re.compile(r"^# test: (?:.*/)?(test_\w+\.py)::(test_\w+)", re.MULTILINE)


def rows() -> list[str]:
    """The rows of the tables, without their heads."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith("| Rule |")]


@cache
def every_test() -> frozenset[tuple[str, str]]:
    """Each test by its file's name and its own."""
    return frozenset(
        (file.name, node.name)
        for folder in ("integration", "faults", "tools", "unit")
        for file in (ROOT / "tests" / folder).glob("test_*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    )


def test_each_row_of_the_threat_model_names_its_test_or_says_that_there_is_none() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    model = page.partition("\n## Threat model\n")[2].partition("\n## ")[0]
    found = [line.split("|") for line in model.splitlines() if line.startswith("| ")][1:]
    assert len(found) > 10
    for row in found:
        assert len(row) == 6, row[1]
        tests = TEST.findall(row[4])
        assert (row[4].strip() == "not tested") != bool(tests), row[1]
        assert set(tests) <= every_test(), row[1]


def test_the_page_has_the_test_of_every_mutation() -> None:
    patches = sorted((ROOT / "tests" / "mutations").glob("*.patch"))
    of_patches = {
        found
        for patch in patches
        for found in PATCH_TEST.findall(patch.read_text(encoding="utf-8"))
    }
    assert of_patches - {found for row in rows() for found in TEST.findall(row)} == set()
    of_junit = {
        name
        for patch in patches
        for name in PATCH_JVM_TEST.findall(patch.read_text(encoding="utf-8"))
    }
    assert of_junit - {name for row in rows() for name in JVM_TEST.findall(row)} == set()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:50])
def test_a_rule_names_code_and_tests_that_exist(row: str) -> None:
    _, _, code, seen, proof, _ = row.split("|")
    assert TEST.search(proof) or JVM_TEST.search(proof)
    assert all(any(JVM_TESTS.rglob(f"{name}.java")) for name in JVM_TEST.findall(proof))
    assert set(TEST.findall(proof)) <= every_test()
    assert CODE.search(code)
    for name, method in CODE.findall(code):
        (file,) = JAVA.rglob(f"{name}.java")
        declared = re.compile(rf"^ {{2,4}}[^ =;(][^=;(]*\b{method}\(", re.MULTILINE)
        assert declared.search(file.read_text(encoding="utf-8")), f"{name}.{method}"
    conditions = json.loads(ERRORS.read_text(encoding="utf-8"))["conditions"]
    assert set(re.findall(r"EOSKAFKA_[A-Z_]+", seen)) <= conditions.keys()


@pytest.mark.parametrize("source", ["KIP-98", "KIP-447", "KIP-609", "KIP-983", "franz-go"])
def test_the_page_has_a_chapter_for_each_protocol_that_the_connector_stands_on(source: str) -> None:
    assert re.search(rf"^## {source}\b", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
