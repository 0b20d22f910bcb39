"""Whether what one broker says is what all brokers say that are connected to the controllers."""

from __future__ import annotations

import base64
import uuid
from contextlib import nullcontext
from typing import Any

import pytest
from eoskafka.brokers import agreement
from eoskafka.brokers.agreement import Answer, disagreement_on_ids, former_leader
from eoskafka.brokers.connection import Connection
from kafka import TopicPartition

CLUSTER = Connection("b:9092", {})
PARTITIONS = [TopicPartition("t", number) for number in range(2)]
PRESENT_ID, FORMER_ID = "P" * 21 + "A", "F" * 21 + "A"
A, B, C = 1, 2, 3


def topic(topic_id: str, epoch: int) -> list[dict[str, Any]]:
    """The topic `t`, as a broker describes it."""
    partitions = [{"partition_index": p.partition, "leader_epoch": epoch} for p in PARTITIONS]
    number = uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
    return [{"name": "t", "error_code": 0, "topic_id": number, "partitions": partitions}]


def answer(topic_id: str, *brokers: int, epoch: int = 5) -> Answer:
    return Answer({each: f"b:{each}" for each in brokers}, topic(topic_id, epoch))


def ids_problem(topic_id: str) -> str:
    return disagreement_on_ids(CLUSTER, dict.fromkeys(PARTITIONS, topic_id), ["t"])


def leader_problem(epoch: int) -> str:
    return former_leader(CLUSTER, dict.fromkeys(PARTITIONS, epoch))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[int, Answer | None]:
    """What each broker answers; the command has the list of broker A."""
    answers: dict[int, Answer | None] = {}

    def nodes(_: object) -> list[dict[str, object]]:
        known = answers[A]
        assert known is not None
        return [{"broker_id": each, "host": "b", "port": each} for each in known.brokers]

    monkeypatch.setattr(agreement, "_WAIT_S", 0)
    monkeypatch.setattr(agreement, "nodes", nodes)
    monkeypatch.setattr(agreement, "answer_of", lambda _, broker, *__: answers.get(broker))
    monkeypatch.setattr(Connection, "admin", lambda _: nullcontext(None))
    return answers


def test_ids_are_believed_if_all_brokers_name_them(asked: dict[int, Answer | None]) -> None:
    asked |= {broker: answer(PRESENT_ID, A, B) for broker in (A, B)}
    assert not ids_problem(PRESENT_ID)


@pytest.mark.parametrize("listed", [(A, B, C), (B, C)])
def test_the_id_that_a_broker_names_which_is_cut_off_is_not_believed(
    asked: dict[int, Answer | None], listed: tuple[int, ...]
) -> None:
    """It is in the lists of the others for a few seconds."""
    asked |= {A: answer(FORMER_ID, A, B, C), B: answer(PRESENT_ID, *listed)}
    asked[C] = asked[B]
    problem = ids_problem(FORMER_ID)
    assert f"names the topic id {PRESENT_ID} of t-0" in problem
    assert f"asked first names {FORMER_ID}" in problem
    if A not in listed:
        # Another broker was asked first, and what the one says that is cut off does not matter.
        assert not ids_problem(PRESENT_ID)


def test_a_broker_that_is_down_does_not_matter_once_the_others_do_not_list_it(
    asked: dict[int, Answer | None],
) -> None:
    asked |= {A: answer(PRESENT_ID, A, B), B: answer(PRESENT_ID, A, B), C: None}
    assert not ids_problem(PRESENT_ID)
    assert not leader_problem(5)


def test_nothing_is_believed_if_only_a_broker_answers_that_may_be_cut_off(
    asked: dict[int, Answer | None],
) -> None:
    asked |= {A: answer(FORMER_ID, A, B, C), B: None, C: None}
    said = "broker 2 at b:2 does not answer, and the others list it"
    assert ids_problem(FORMER_ID).startswith(said)
    assert leader_problem(5) == said


def test_a_topic_that_a_broker_does_not_know_counts_as_another_one(
    asked: dict[int, Answer | None],
) -> None:
    asked |= {A: answer(PRESENT_ID, A, B), B: Answer({A: "b:1", B: "b:2"}, [])}
    assert "broker 2 at b:2 names the topic id none of t-0" in ids_problem(PRESENT_ID)


def test_the_end_that_a_former_leader_names_is_not_believed(
    asked: dict[int, Answer | None],
) -> None:
    asked |= {A: answer(PRESENT_ID, A, B, epoch=4), B: answer(PRESENT_ID, A, B, epoch=5)}
    assert leader_problem(4) == (
        "a former leader has named the end of t-0: its leader epoch is 4, and broker 2 at b:2 "
        "knows of 5"
    )
    # Not every broker has heard of the newest leader yet.
    assert not leader_problem(5)
    assert not leader_problem(6)


def test_a_broker_that_is_cut_off_need_not_know_the_newest_leader(
    asked: dict[int, Answer | None],
) -> None:
    asked |= {A: answer(PRESENT_ID, A, B, C, epoch=4)}
    asked |= {each: answer(PRESENT_ID, B, C, epoch=5) for each in (B, C)}
    assert leader_problem(4)
    assert not leader_problem(5)
