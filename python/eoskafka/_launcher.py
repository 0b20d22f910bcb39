"""What Spark's launcher will add to a session that pyspark is about to start.

pyspark passes a builder's settings to spark-submit as `--conf`. They replace settings in
`spark-defaults.conf`, lists included, and are replaced by those in `PYSPARK_SUBMIT_ARGS`
(observed on Spark 4.2).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile, zip_longest
from pathlib import Path

# Java's properties: a line goes on after a backslash; a key ends at a space, an equals sign or a
# colon.
_GOES_ON = re.compile(r"(?<!\\)((?:\\\\)*)\\\n[ \t\f]*")
_LINE = re.compile(r"[ \t\f]*((?:\\.|[^\s=:#!\\])(?:\\.|[^\s=:\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_PLAIN = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# These options take precedence over the same setting in --conf.
_OPTIONS = {"--jars": "spark.jars", "--packages": "spark.jars.packages", "--remote": "spark.remote"}
_APPLICATION = "pyspark-shell"


def file_settings() -> dict[str, str]:
    """Those of `spark-defaults.conf`, or of the file that PYSPARK_SUBMIT_ARGS names instead."""
    arguments = dict(_arguments())
    files = []
    if "--properties-file" not in arguments or "--load-spark-defaults" in arguments:
        files.append(_conf_dir() / "spark-defaults.conf")
    if named := arguments.get("--properties-file"):
        files.append(Path(named))
    found: dict[str, str] = {}
    for file in filter(Path.is_file, files):
        found |= properties(file.read_text(encoding="utf-8", errors="replace"))
    return found


def argument_settings() -> dict[str, str]:
    """Those of PYSPARK_SUBMIT_ARGS, by their names in Spark's configuration."""
    given = list(_arguments())
    pairs = [value.partition("=") for option, value in given if option in ("--conf", "-c")]
    found = {key: value for key, _, value in pairs}
    return found | {_OPTIONS[name]: value for name, value in given if name in _OPTIONS}


def properties(text: str) -> dict[str, str]:
    """What Java reads of a properties file."""
    lines = _GOES_ON.sub(r"\1", text).splitlines()
    found = filter(None, map(_LINE.fullmatch, lines))
    return {_unescaped(line[1]): _unescaped(line[2]).strip() for line in found}


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        word = found[1]
        return chr(int(word[1:], 16)) if len(word) > 1 else _PLAIN.get(word, word)

    return _ESCAPED.sub(plain, text)


def _arguments() -> Iterator[tuple[str, str]]:
    """Options with their values, in their order."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    options = list(takewhile(lambda word: word != _APPLICATION, words))
    for word, following in zip_longest(options, options[1:], fillvalue=""):
        option, equals, value = word.partition("=")
        if word.startswith("-"):
            yield (option, value) if equals else (word, following)


def _conf_dir() -> Path:
    if given := os.environ.get("SPARK_CONF_DIR"):
        return Path(given)
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "conf"
