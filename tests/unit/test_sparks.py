"""The versions of Spark in Python are the JVM's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from eoskafka import sparks

JAVA = Path(__file__).parents[2] / "jvm-shim/connector/src/main/java/io/eoskafka/spark"


def test_both_languages_have_the_same_range() -> None:
    source = (JAVA / "SparkVersion.java").read_text(encoding="utf-8")
    oldest, newest = re.findall(r'(?:OLDEST|NEWEST) = of\("([\d.]+)"\)', source)
    assert (oldest, newest) == (sparks.text(sparks.OLDEST), sparks.text(sparks.NEWEST))
    setting = re.search(r'ALLOW_UNTESTED = "(.+)"', (JAVA / "SparkCheck.java").read_text("utf-8"))
    assert setting is not None
    assert setting[1] == sparks.ALLOW_UNTESTED


@pytest.mark.parametrize(
    ("version", "line", "fits"),
    [
        ("4.0.1.dev0", (4, 0), True),
        ("4.1.1-amzn-0", (4, 1), True),
        ("4.3.0", (4, 3), True),
        ("4.4.0", (4, 4), False),
        ("3.5.2-databricks", (3, 5), True),
        ("3.4.4", (3, 4), False),
        ("master", (0, 0), False),
    ],
)
def test_a_version_is_its_first_two_numbers(
    version: str, line: tuple[int, int], fits: bool
) -> None:
    assert sparks.line(version) == line
    assert sparks.is_supported(version) is fits
