"""Whatever others have written where eoskafka reads, it is read or refused by name."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from eoskafka import _json, properties, tokens
from eoskafka.dead_letters import PREFIX, Origin
from eoskafka.errors import ConfigurationError
from eoskafka.offsets.target import Target
from eoskafka.options import check
from fuzz import corpus, readers
from hypothesis import given, settings
from hypothesis import strategies as st

TRIES = int(os.environ.get("EOSKAFKA_TRIES", "300"))
CORPUS = Path(__file__).with_name("foreign_corpus.jsonl").read_text(encoding="utf-8").splitlines()
# Python refuses to read a number of more than 4,300 digits.
DIGITS = "9" * 5_000
DEEP = '{"a":' * 20_000 + "1" + "}" * 20_000
SOURCE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
URL = "sasl.oauthbearer.token.endpoint.url"
TOKENS = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "a.Module required;"}
FROM_A_FOLDER = {
    "config.providers": "dir",
    "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    "sasl.mechanism": "${dir:a\0b:c}",
}


@pytest.mark.parametrize("form", ["{}", "-{}", "{}.5e+0"])
def test_a_number_has_at_most_as_many_digits_as_the_connector_reads(form: str) -> None:
    others = form.count("5") + form.count("0")
    assert _json.parse(form.format("9" * (1_000 - others))) is not None
    with pytest.raises(ValueError, match="more than 1,000 digits"):
        _json.parse(form.format("9" * (1_001 - others)))


@pytest.mark.parametrize("reader", readers.ALL, ids=lambda reader: reader.__name__)
@settings(max_examples=TRIES, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_any_input_is_read_or_refused_by_name(reader: readers.Reader, random: Random) -> None:
    reader(random)


@pytest.mark.parametrize(
    "read",
    [
        lambda: check("source", {**SOURCE, "maxOffsetsPerTrigger": DIGITS}),
        lambda: check("source", {**SOURCE, "startingOffsets": DEEP}),
        lambda: Target.parse(DIGITS),
        lambda: Target.parse(DEEP),
        lambda: Target.parse('{"t":{"\u0661":1}}'),
        lambda: Target.parse('{"t":{"0":9223372036854775808}}'),
        lambda: properties.read(Path("a\0b")),
        lambda: properties.of_kafka_python(FROM_A_FOLDER),
        lambda: properties.of_kafka_python({**TOKENS, URL: "http://["}),
    ],
)
def test_numbers_nesting_and_paths_without_bounds_are_refused_by_name(
    read: Callable[[], object],
) -> None:
    with pytest.raises(ConfigurationError):
        read()


def test_a_header_of_a_dead_letter_that_is_no_number_counts_as_absent() -> None:
    for value in (DIGITS, "9223372036854775808", "-1", "\u0661"):
        headers = [(f"{PREFIX}{name}", value.encode()) for name in ("offset", "partition")]
        assert (Origin.of(headers).offset, Origin.of(headers).partition) == (-1, -1)
    assert Origin.of([(f"{PREFIX}partition", b"2147483648")]).partition == -1
    assert Origin.of([(f"{PREFIX}offset", b"9223372036854775807")]).offset == 2**63 - 1


def test_a_setting_of_thousands_of_digits_stays_a_text() -> None:
    assert properties.of_kafka_python({"request.timeout.ms": DIGITS}) == {
        "request_timeout_ms": DIGITS
    }


def test_a_token_that_names_no_possible_end_has_none() -> None:
    claims = base64.urlsafe_b64encode(b'{"exp":1' + b"0" * 400 + b"}").decode().rstrip("=")
    assert tokens._end(f"header.{claims}.signature") is None


@pytest.mark.parametrize("reader", ["stamp", "id", "entries", "offsets"])
def test_python_reads_what_the_connector_reads(reader: str) -> None:
    lines = [line for line in CORPUS if line.startswith(f'["{reader}",')]
    assert len(lines) > 50
    assert [line for line in lines if not corpus.agrees(line)] == []
