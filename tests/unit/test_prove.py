"""The stages of `make prove`: what each is evidence for, when it is stale, what the page says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prove import __main__ as prove
from prove.behaviour import behaviour
from prove.stages import ROOT, Stage, figures_of, stages, verdict

RESULT = {
    "passed": True,
    "figures": {"passed": 1_234, "kills": 5},
    "sources": "of another day",
    "seconds": 1_800,
    "commit": "0123456789ab",
    "is_clean": True,
    "date": "2026-01-31",
}


@pytest.mark.parametrize("stage", stages(), ids=lambda stage: stage.name)
def test_a_stage_says_what_it_is_evidence_for(stage: Stage) -> None:
    assert stage.claim
    assert all((ROOT / name).exists() for name in (stage.evidence, *stage.own))


def test_each_stage_has_a_name_of_its_own() -> None:
    names = [stage.name for stage in stages()]
    assert sorted(names) == sorted(set(names))


def test_a_stage_is_stale_once_its_own_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prove.stages.ROOT", tmp_path)
    test = tmp_path / "test_it.py"
    test.write_text("one", encoding="utf-8")
    stage = replace(stages()[-1], own=("test_it.py",))
    results = {stage.name: {**RESULT, "sources": stage.sources}}
    assert prove.state(stage, results) == "current"
    test.write_text("two", encoding="utf-8")
    assert prove.state(replace(stage), results) == "stale"
    assert prove.state(stage, {}) == "missing"
    assert prove.state(stage, {stage.name: {**RESULT, "passed": False}}) == "failed"


@pytest.mark.parametrize(
    ("former", "present", "is_same"),
    [
        ("int a = 1; // one", "/* two\n lines */ int a\n= 1;", True),
        ("int a = 1;", "int a = 2;", False),
        ("int a = 1;", "inta = 1;", False),
        ('String a = "//x";', 'String a = "//y";', False),
        ('String a = "/*"; int b = 1; //*/', 'String a = "/*"; int b = 2; //*/', False),
        ("char a = '\"'; // b", "char a = '\"'; // c", True),
        ('String a = """\n// b\n""";', 'String a = """\n// c\n""";', False),
    ],
)
def test_comments_in_java_do_not_make_a_stage_stale(
    tmp_path: Path, former: str, present: str, is_same: bool
) -> None:
    file = tmp_path / "A.java"
    found = []
    for text in (former, present):
        file.write_text(text, encoding="utf-8")
        found.append(behaviour(file))
    assert (found[0] == found[1]) is is_same


def test_the_wording_of_messages_does_not_make_a_stage_stale(tmp_path: Path) -> None:
    file = tmp_path / "errors.json"
    found = []
    for condition in (
        {"message": "a", "error": "E"},
        {"message": "b", "error": "E"},
        {"message": "b", "error": "F"},
    ):
        file.write_text(json.dumps({"conditions": {"C": condition}}), encoding="utf-8")
        found.append(behaviour(file))
    assert found[0] == found[1] != found[2]


def test_the_page_has_the_figures_and_the_commit_of_each_stage() -> None:
    first, second, *_ = stages()
    failed = {**RESULT, "passed": False, "figures": {"passed": 1, "failed": ["test_x"]}}
    text = prove.page(
        [first, second], {first.name: {**RESULT, "is_clean": False}, second.name: failed}
    )
    assert "1,234 passed, 5 kills | 0123456789ab and changes | 2026-01-31 | 1,800 |" in text
    assert "**FAILED**; 1 passed, failed: test_x" in text
    assert "1 of 2 stages had passed, and 0 of these results were of the present sources" in (
        " ".join(text.split())
    )
    assert "not run" in prove.page([first], {})


@pytest.mark.parametrize(
    ("passed", "skipped", "failed", "is_good"),
    [(8, [], [], True), (7, ["x"], [], True), (7, [], ["x"], False), (0, ["x"], [], False)],
)
def test_tests_that_are_all_skipped_prove_nothing(
    passed: int, skipped: list[str], failed: list[str], is_good: bool
) -> None:
    found = {"passed": passed, "skipped": skipped, "failed": failed, "kills": 0, "records": 0}
    good, figures = verdict(found)
    assert good is is_good
    assert figures == {
        "passed": passed,
        **({"skipped": 1} if skipped else {}),
        **({"failed": failed} if failed else {}),
    }


def test_figures_are_found_in_either_order() -> None:
    text = "# Soak: 10,019 epochs\n\n| faults | 231 |\n| anomalies | 0 |\n"
    assert figures_of(text, r"([\d,]+) (epochs)$") == {"epochs": "10,019"}
    assert figures_of(text, r"^\| (faults|anomalies) \| ([\d,]+) \|$") == {
        "faults": "231",
        "anomalies": "0",
    }
    assert figures_of(text, "") == {}
