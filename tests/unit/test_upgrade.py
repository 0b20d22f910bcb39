"""What `eoskafka upgrade check` comes to; what brokers answer is in the integration tests."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import eoskafka.upgrade
import pytest
from eoskafka.brokers.connection import Connection
from eoskafka.upgrade import Report, Verdict, check
from kafka import TopicPartition

FIRST = TopicPartition("payments", 0)
NAMED = ["payments"]


def checked(
    monkeypatch: pytest.MonkeyPatch,
    topics: list[str],
    pending: set[TopicPartition] | None = None,
    transactions: tuple[str, ...] = (),
    sees_all: bool = True,
    members: tuple[str, ...] = (),
) -> Report:
    """What a group without offsets is, of which brokers say that."""

    def pending_of(_: object, __: str, asked: set[TopicPartition]) -> set[TopicPartition]:
        return (pending or set()) & asked

    answers: dict[str, Any] = {
        "brokers": lambda _: (),
        "committed": lambda *_: {},
        "members": lambda *_: members,
        "topic_ids": lambda _, names: {FIRST: "id"} if names == NAMED else {},
        "pending": pending_of,
        "open_transactions": lambda *_: transactions,
        "sees_every_transaction": lambda _: sees_all,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(eoskafka.upgrade, name, answer)
    monkeypatch.setattr(Connection, "admin", lambda _: nullcontext())
    return check("broker:9092", "payments", topics)


@pytest.mark.parametrize("topics", [NAMED, []])
def test_a_group_that_nobody_uses_is_free(
    monkeypatch: pytest.MonkeyPatch, topics: list[str]
) -> None:
    assert checked(monkeypatch, topics).verdict is Verdict.FREE


def test_pending_offsets_make_a_group_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(monkeypatch, NAMED, {FIRST}, ("another-application",))
    assert (found.verdict, found.pending) == (Verdict.IN_USE, 1)
    assert "another-application" in found.steps[0]
    found = checked(monkeypatch, NAMED, {FIRST})
    assert found.verdict is Verdict.IN_USE
    assert "Its name is not known" in found.steps[0]


@pytest.mark.parametrize(
    ("transactions", "sees_all", "says"),
    [(("some",), True, "(some)"), ((), False, "this user may not see every transaction")],
)
@pytest.mark.parametrize("topics", [[], ["not-there"]])
def test_without_topics_a_group_that_may_have_pending_offsets_is_not_free(
    monkeypatch: pytest.MonkeyPatch,
    topics: list[str],
    transactions: tuple[str, ...],
    sees_all: bool,
    says: str,
) -> None:
    found = checked(monkeypatch, topics, {FIRST}, transactions, sees_all)
    assert found.verdict is Verdict.IN_USE
    (step,) = found.steps
    assert "--topics" in step
    assert says in step
    # The transactions are of other groups, then.
    assert checked(monkeypatch, NAMED, None, transactions, sees_all).verdict is Verdict.FREE


def test_members_are_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(monkeypatch, [], None, ("some",), members=("a-member",))
    assert found.verdict is Verdict.IN_USE
    assert "a-member" in found.steps[0]
