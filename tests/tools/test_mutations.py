"""What `tests/mutations/run.py` makes of a test's end, by real runs of pytest; and its report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from mutations import run
from mutations.run import BrokenError, Mutation, Outcome, Result, State
from prove.behaviour import connector_digest, package_digest

WAITING = run.ROOT / "tests" / "integration" / "harness" / "waiting.py"
TESTS = """
import os
import socket
import time

import pytest
from eoskafka.audit import UndecidedError
from kafka.errors import KafkaTimeoutError
from waiting import until

def test_passes():
    assert os.environ["EOSKAFKA_JAR"] == "mutated.jar"

def test_compares():
    assert [1, 1] == [1]

def test_waits_in_vain():
    until(lambda: False, "the record", 0.1)

def test_does_not_see_the_error():
    with pytest.raises(ValueError):
        pass

def test_sees_another_error():
    with pytest.raises(ValueError, match="gone"):
        raise ValueError("there")

def test_cannot_decide():
    raise UndecidedError("a transaction is open")

def test_hangs():
    until(lambda: False, "the record", 60)

def test_hangs_and_cannot_clean_up():
    try:
        time.sleep(60)
    finally:
        until(lambda: False, "the end", 0.1)

def test_hears_nothing_from_a_socket():
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    server.accept()

def test_hears_nothing_from_a_broker():
    raise KafkaTimeoutError("assert nothing")

def test_breaks():
    raise RuntimeError("assert that this is no AssertionError")

def test_is_skipped():
    pytest.skip("assert nothing here")

@pytest.fixture
def breaks_at_the_end():
    yield
    raise RuntimeError("not stopped")

@pytest.fixture
def hangs_at_the_start():
    time.sleep(60)

def test_compares_and_breaks_at_the_end(breaks_at_the_end):
    assert [1, 1] == [1]

def test_passes_and_breaks_at_the_end(breaks_at_the_end):
    pass

def test_hangs_at_the_start(hangs_at_the_start):
    pass
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with these tests; pytest-timeout cuts each of them short after a second."""
    root = tmp_path_factory.mktemp("repository")
    (root / "tests").mkdir()
    (root / "tests" / "test_it.py").write_text(TESTS, encoding="utf-8")
    shutil.copy(WAITING, root / "tests")
    (root / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\npythonpath = ["tests"]\ntimeout = 1\n', encoding="utf-8"
    )
    return root


@pytest.fixture(scope="module")
def cases(root: Path) -> list[ET.Element]:
    """Pytest's report on all of them, from one run."""
    report = root / "all.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", "tests"]
    environment = {**os.environ, "EOSKAFKA_JAR": "mutated.jar"}
    subprocess.run(command, cwd=root, env=environment, check=False, capture_output=True)
    return list(ET.parse(report).iter("testcase"))


def test_a_test_that_passes_has_not_caught_the_mutation(root: Path, tmp_path: Path) -> None:
    node = "tests/test_it.py::test_passes"
    outcome, _ = run.run_test(node, Path("mutated.jar"), tmp_path, root)
    assert outcome is Outcome.SURVIVED


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test_compares", "assert [1, 1] == [1]"),
        ("test_waits_in_vain", "TimeoutError: the record: not within 0.1 s."),
        ("test_does_not_see_the_error", "Failed: DID NOT RAISE ValueError"),
        ("test_sees_another_error", "AssertionError: Regex pattern did not match."),
        ("test_cannot_decide", "UndecidedError: a transaction is open"),
        ("test_compares_and_breaks_at_the_end", "assert [1, 1] == [1]"),
    ],
)
def test_a_verdict_of_the_test_itself_has_caught_the_mutation(
    root: Path, cases: list[ET.Element], name: str, message: str
) -> None:
    outcome, detail = run.judge([case for case in cases if case.get("name") == name], root)
    assert outcome is Outcome.CAUGHT
    assert message in detail


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test_hangs", r"came to no end: Timeout \(>1\.0s\) from pytest-timeout"),
        ("test_hangs_and_cannot_clean_up", "came to no end: Timeout"),
        ("test_hangs_at_the_start", "^error: failed on setup with .*pytest-timeout"),
        ("test_hears_nothing_from_a_socket", "the test broke: TimeoutError: timed out"),
        ("test_hears_nothing_from_a_broker", "the test broke: kafka.errors.KafkaTimeoutError"),
        ("test_breaks", "the test broke: RuntimeError"),
        ("test_passes_and_breaks_at_the_end", "^error: failed on teardown with .*not stopped"),
        ("test_is_skipped", "^skipped: assert nothing here"),
    ],
)
def test_a_test_that_broke_or_was_cut_short_is_no_verdict(
    root: Path, cases: list[ET.Element], name: str, message: str
) -> None:
    mine = [case for case in cases if case.get("name") == name]
    assert mine
    with pytest.raises(BrokenError, match=message):
        run.judge(mine, root)


def test_a_test_that_was_cut_short_with_its_process_is_no_verdict(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-o timeout_method=thread")
    with pytest.raises(BrokenError, match="has left no report"):
        run.run_test("tests/test_it.py::test_hangs", Path("mutated.jar"), tmp_path, root)


def test_a_node_id_must_name_one_test(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BrokenError, match="names 0 tests"):
        run.run_test("tests/test_it.py::test_nothing", Path("mutated.jar"), tmp_path, root)


# ---- the report

STATE = State("1a2b", "3c4d", "5e6f", True)
PATCHES = sorted(run.FOLDER.glob("*.patch"))
JVM_TESTS = run.ROOT / "jvm-shim" / "connector" / "src" / "test" / "java"


def result(patch: Path, outcome: Outcome = Outcome.CAUGHT, state: State = STATE) -> Result:
    mutation = Mutation(patch, "6. One of a | b.", "tests/x.py::test_y[a | b]")
    return Result(mutation, state, outcome, "assert 1 == 2", 61.4)


def test_a_partial_run_replaces_its_own_rows_and_keeps_the_others(tmp_path: Path) -> None:
    report = tmp_path / "mutations.md"
    first, second = PATCHES[:2]
    run.record(result(second), report)
    run.record(result(first, Outcome.BROKEN), report)
    kept = run.read_rows(report)[second.stem]
    run.record(result(first, state=replace(STATE, commit="7a8b", is_clean=False)), report)
    rows = run.read_rows(report)
    assert [*rows] == [first.stem, second.stem]
    assert rows[second.stem] == kept
    assert (kept.rule, kept.test) == ("6. One of a | b.", "`tests/x.py::test_y[a | b]`")
    assert (kept.seconds, kept.commit) == ("61", "5e6f")
    assert rows[first.stem].commit == "7a8b and changes"
    assert f"{len(PATCHES)} rules, 2 tried, 2 caught" in report.read_text(encoding="utf-8")


def test_the_row_of_a_patch_that_is_gone_goes_too(tmp_path: Path) -> None:
    report = tmp_path / "mutations.md"
    run.record(result(tmp_path / "99-there-was-one.patch"), report)
    assert run.read_rows(report) == {}


@pytest.mark.parametrize(
    ("outcome", "now", "is_skipped"),
    [
        (Outcome.CAUGHT, replace(STATE, commit="7a8b"), True),
        (Outcome.CAUGHT, replace(STATE, patch="0000"), False),
        (Outcome.CAUGHT, replace(STATE, sources="0000"), False),
        (Outcome.SURVIVED, STATE, False),
        (Outcome.BROKEN, STATE, False),
    ],
)
def test_what_was_caught_with_this_patch_and_these_sources_is_skipped(
    outcome: Outcome, now: State, is_skipped: bool
) -> None:
    assert run.is_caught(run.row_of(result(PATCHES[0], outcome)), now) is is_skipped
    assert not run.is_caught(None, now)


def test_what_passed_with_these_sources_needs_no_control(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    test = "tests/unit/test_prove.py::test_each_stage_has_a_name_of_its_own"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", test]
    subprocess.run(command, cwd=run.ROOT, check=True, capture_output=True)
    assert run.passed_in([report]) == {test}
    text = report.read_text(encoding="utf-8")
    case = text[text.index("<testcase") : text.index("</testcase>")]
    for other in (
        text.replace(connector_digest(run.ROOT), "of a former commit"),
        text.replace(package_digest(run.ROOT), "of a former commit"),
        text.replace("</testcase>", '<skipped message="" /></testcase>'),
        # Passed, and failed when it was cleaned up: pytest has two entries then.
        text.replace("</testcase>", f"</testcase>{case}<error /></testcase>"),
    ):
        report.write_text(other, encoding="utf-8")
        assert run.passed_in([report]) == set()


def test_every_patch_names_one_test() -> None:
    nodes = {run.read(patch).test for patch in PATCHES}
    of_junit = {node for node in nodes if run.JUNIT.fullmatch(node)}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(nodes - of_junit)], cwd=run.ROOT, check=False, capture_output=True, text=True
    )
    # One that names several, or none, is not among those that were found.
    assert nodes - of_junit - set(done.stdout.splitlines()) == set(), done.stdout[-2000:]
    for node in of_junit:
        name, _, method = node.partition("#")
        file = JVM_TESTS / f"{name.replace('.', '/')}.java"
        assert f"void {method}(" in file.read_text(encoding="utf-8"), node


# ---- tests of the JVM

PASSES = '<testcase classname="io.eoskafka.T" name="passes"/>'
FAILS = (
    '<testcase classname="io.eoskafka.T" name="fails(int)[1]"><failure message="expected: 1"'
    ' type="org.opentest4j.AssertionFailedError"/></testcase>'
)
BREAKS = (
    '<testcase classname="io.eoskafka.T" name="breaks"><error message="no index 3"'
    ' type="java.lang.IndexOutOfBoundsException"/></testcase>'
)


def test_a_junit_test_that_passes_has_not_caught_the_mutation() -> None:
    assert run.judge_junit([ET.fromstring(PASSES)])[0] is Outcome.SURVIVED


def test_a_failed_assertion_of_junit_has_caught_the_mutation() -> None:
    outcome, detail = run.judge_junit([ET.fromstring(PASSES), ET.fromstring(FAILS)])
    assert outcome is Outcome.CAUGHT
    assert detail == "org.opentest4j.AssertionFailedError: expected: 1"


def test_an_exception_in_a_junit_test_is_no_verdict() -> None:
    with pytest.raises(BrokenError, match=r"the test broke: java\.lang\.Index.*no index 3"):
        run.judge_junit([ET.fromstring(BREAKS)])


def test_a_patch_of_the_python_package_is_known_by_what_it_changes(tmp_path: Path) -> None:
    patch = tmp_path / "a.patch"
    patch.write_text("--- a/python/eoskafka/x.py\n+++ b/python/eoskafka/x.py\n", encoding="utf-8")
    assert run.is_of_python(patch)
    patch.write_text("+++ b/python/eoskafka/spec/errors.json\n", encoding="utf-8")
    assert not run.is_of_python(patch)
    patch.write_text("+++ b/python/eoskafka/x.py\n+++ b/jvm-shim/X.java\n", encoding="utf-8")
    assert not run.is_of_python(patch)
