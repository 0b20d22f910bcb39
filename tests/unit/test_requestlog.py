"""What is read from the request log of a broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from requestlog.log import AFTER_REBALANCE, Request, parse, sequences, unrepeated

RUN = "f3e9e6cf-a1fe-4d48-bd4c-619cc31c77d0"
IDENTITY = "DlWPT0adFZFv5r_BuPcHLw"


def line(client: str, api: str, **body: Any) -> str:
    header = {"clientId": client, "requestApiKeyName": api}
    entry = json.dumps({"requestHeader": header, "request": body})
    return f"[2026-11-25 22:16:32,241] DEBUG Completed request:{entry} (kafka.request.logger)"


@pytest.mark.parametrize(
    ("client", "named"),
    [
        (f"eoskafka-driver-{RUN}", "eoskafka-driver-RUN"),
        (f"{RUN}-1", "RUN-1"),
        (f"eoskafka-g2622393aa0-{IDENTITY}-1", "eoskafka-GROUP-IDENTITY-1"),
        (f"eoskafka-{IDENTITY}-driver", "eoskafka-IDENTITY-driver"),
        ("eoskafka-transaction-lists", "eoskafka-transaction-lists"),
    ],
)
def test_a_client_id_has_no_part_of_one_run_only(client: str, named: str) -> None:
    assert parse(line(client, "PRODUCE")) == [Request(named, "PRODUCE")]


def test_other_clients_and_lines_are_left_out() -> None:
    others = ("1", "kafka-python-3.0.12", "AddPartitionsManager-client-1")
    text = "\n".join(line(client, "PRODUCE") for client in others)
    assert (
        parse(f"{text}\n[2026-11-25 22:16:32,241] INFO Completed request: none (kafka.other)") == []
    )


def test_what_a_request_asks_for_is_in_its_name() -> None:
    text = "\n".join(
        [
            line(RUN, "OFFSET_FETCH", requireStable=True),
            line(RUN, "OFFSET_FETCH", requireStable=False),
            line(RUN, "END_TXN", committed=True),
            line(RUN, "END_TXN", committed=False),
        ]
    )
    assert [request.name for request in parse(text)] == [
        "OFFSET_FETCH (stable)",
        "OFFSET_FETCH (plain)",
        "END_TXN (commit)",
        "END_TXN (abort)",
    ]


def test_requests_are_in_order_for_each_client_without_those_by_timing() -> None:
    sent = [
        Request("b", "METADATA"),
        Request("b", "PRODUCE"),
        Request("a", "JOIN_GROUP"),
        Request("b", "FETCH"),
        Request("b", "PRODUCE"),
        Request("b", "END_TXN (commit)"),
        Request("a", "HEARTBEAT"),
        Request("b", "PRODUCE"),
    ]
    assert sequences(sent) == ["a: JOIN_GROUP", "b: PRODUCE → END_TXN (commit) → PRODUCE"]


def test_what_two_threads_send_has_no_order() -> None:
    names = ["LIST_OFFSETS", "INIT_PRODUCER_ID", "OFFSET_FETCH (plain)", "DESCRIBE_GROUPS"]
    sent = [Request("eoskafka-driver-RUN", name) for name in names]
    (line,) = sequences(sent, AFTER_REBALANCE)
    assert line.endswith(": LIST_OFFSETS → OFFSET_FETCH (plain), and at some time INIT_PRODUCER_ID")


@pytest.mark.parametrize(
    ("names", "kept"), [("ABABAB", "AB"), ("XABABY", "XABY"), ("AABB", "AB"), ("ABCAB", "ABCAB")]
)
def test_groups_that_follow_each_other_are_kept_once(names: str, kept: str) -> None:
    assert unrepeated(names) == [*kept]
