from __future__ import annotations

import eoskafka
import pytest
from eoskafka import error_of

MESSAGE = "[EOSKAFKA_FENCED_BY_DRIVER] Another driver took over group 'g'. Stop one of the two."


def test_the_connectors_error_is_found_in_sparks_text() -> None:
    text = (
        f"Job aborted: Lost task 0.0\nio.eoskafka.config.EosKafkaException: {MESSAGE}\n\tat a.B\n"
    )
    error = error_of(RuntimeError(text))
    assert isinstance(error, eoskafka.FencedError)
    assert error.condition == "EOSKAFKA_FENCED_BY_DRIVER"
    assert str(error) == MESSAGE


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: ",
        "[USER_RAISED_EXCEPTION] ",
        "(io.eoskafka.config.EosKafkaException) ",
        "An error occurred\n",
    ],
)
def test_a_message_may_follow_others(before: str) -> None:
    error = error_of(RuntimeError(f"{before}{MESSAGE} SQLSTATE: P0001\n== DataFrame =="))
    assert error is not None
    assert str(error) == f"{MESSAGE} SQLSTATE: P0001"


@pytest.mark.parametrize(
    "failure",
    [
        None,
        RuntimeError("no space left"),
        RuntimeError("[EOSKAFKA_OF_A_LATER_VERSION] what now"),
        # Plans, in which a condition is an argument.
        RuntimeError("[DIVIDE_BY_ZERO] no\n+- raise_error(concat([EOSKAFKA_ENCODED_TYPE] , The"),
        RuntimeError(f"[DIVIDE_BY_ZERO] no\n=== Streaming Query ===\nProject [a: {MESSAGE}]"),
    ],
)
def test_other_failures_are_none_of_ours(failure: Exception | None) -> None:
    assert error_of(failure) is None


def test_a_cause_behind_the_plan_is_found() -> None:
    trace = f"JVM stacktrace:\norg.apache.spark.SparkException\nCaused by: a.B: {MESSAGE}"
    plan = "=== Streaming Query ===\nProject [a: [EOSKAFKA_ENCODED_TYPE] no]"
    error = error_of(RuntimeError(f"Job aborted\n{plan}\n\n{trace}"))
    assert error is not None
    assert error.condition == "EOSKAFKA_FENCED_BY_DRIVER"


def test_an_option_that_is_wrong_has_its_condition_too() -> None:
    with pytest.raises(eoskafka.ConfigurationError) as error:
        eoskafka.Source(bootstrap_servers="b:1", subscribe="t", slots=0)
    assert error.value.condition == "EOSKAFKA_OPTION_INVALID"
