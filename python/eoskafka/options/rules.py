"""The checks that the connector makes when a query starts, but for those that need a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from eoskafka import _json
from eoskafka.errors import ConfigurationError
from eoskafka.options.table import option_error, spark_own, table

_MAX_LONG = 2**63 - 1
_MAX_INT = 2**31 - 1
_MOST_DIGITS = 4_000


def check(side: Literal["source", "sink"], options: Mapping[str, str]) -> None:
    """Check options as the connector does when a query starts, but for what only a cluster knows.

    Args:
        side: whose they are.
        options: as Spark gets them, `kafka.` settings included; names in any case.

    Raises:
        ConfigurationError: the message is the connector's.
    """
    for given in options:
        _check_name(side, given)
    known = {table()[n.lower()]["name"]: v for n, v in options.items() if n.lower() in table()}
    for name, value in known.items():
        if side in table()[name.lower()]["sides"]:
            _check_value(name, value)
    if not known.get("kafka.bootstrap.servers", "").strip():
        raise option_error("EOSKAFKA_OPTION_MISSING", option="kafka.bootstrap.servers", side=side)
    (_check_source if side == "source" else _check_sink)(known)


def _check_name(side: str, given: str) -> None:
    name = given.lower()
    if name in spark_own() or name.startswith("asyncprogresstracking"):
        return
    option = table().get(name)
    if option is None:
        if name.startswith("kafka."):
            return
        nearest = min(
            (
                o["name"]
                for o in table().values()
                if side in o["sides"] and o["status"] == "available"
            ),
            key=lambda known: _distance(known.lower(), name),
        )
        raise option_error("EOSKAFKA_UNKNOWN_OPTION", option=given, side=side, nearest=nearest)
    canonical, is_mine = option["name"], side in option["sides"]
    if option["status"] == "refused":
        if is_mine:
            raise option_error(
                "EOSKAFKA_OPTION_REFUSED", option=canonical, instead=option["instead"]
            )
    elif not is_mine and not name.startswith("kafka."):
        other = "sink" if side == "source" else "source"
        raise option_error("EOSKAFKA_OPTION_WRONG_SIDE", option=canonical, side=side, other=other)


def _distance(a: str, b: str) -> int:
    """Levenshtein's edit distance."""
    row: list[int] = [*range(len(b) + 1)]
    for i, left in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            substituted = diagonal + (left != right)
            diagonal, row[j] = row[j], min(substituted, row[j - 1] + 1, row[j] + 1)
    return row[-1]


def _whole(value: str, least: int) -> bool:
    # Python refuses to read a number of thousands of digits.
    is_number = re.fullmatch(r"[+-]?0*[0-9]{1,19}", value) is not None and len(value) < _MOST_DIGITS
    return is_number and least <= int(value) <= _MAX_LONG


def _is_json_object(value: str) -> bool:
    try:
        return isinstance(_json.parse(value), dict)
    except ValueError:
        return False


# A kind's check, and what an option of that kind takes, in the connector's words.
KINDS: dict[str, tuple[Callable[[str], bool], str]] = {
    "positive": (lambda v: _whole(v, 1), "a whole number above 0"),
    "positiveInt": (lambda v: _whole(v, 1), "a whole number above 0"),
    "notNegative": (lambda v: _whole(v, 0), "a whole number, 0 or more"),
    "boolean": (lambda v: v.lower() in ("true", "false"), "true or false"),
    "duration": (
        lambda v: bool(re.fullmatch(r"[0-9]+(us|ms|s|m|min|h|d)?", v.lower())),
        "a time with its unit, such as 90s or 15m",
    ),
    "partitions": (_is_json_object, 'JSON such as {"topic":[0,1]}'),
}


def _check_value(name: str, given: str) -> None:
    takes, value = table()[name.lower()].get("takes", "text"), given.strip()
    if isinstance(takes, list):
        if (value if name.startswith("kafka.") else value.lower()) not in takes:
            words = f"{', '.join(takes[:-1])} or {takes[-1]}" if takes[1:] else takes[0]
            raise _invalid(name, given, words)
    elif takes in KINDS:
        is_right, words = KINDS[takes]
        if not is_right(value):
            raise _invalid(name, given, words)
        if takes == "positiveInt" and int(value) > _MAX_INT:
            raise _invalid(name, given, f"at most {_MAX_INT}")
    elif (takes == "timestamps" or (takes == "offsets" and not _is_named(value))) and (
        not _is_json_object(value)
    ):
        raise option_error("EOSKAFKA_BAD_OFFSET_JSON", option=name, json=given)


def _is_named(value: str) -> bool:
    return value.lower() in ("earliest", "latest")


def _invalid(name: str, value: str, expected: str) -> ConfigurationError:
    return option_error("EOSKAFKA_OPTION_INVALID", option=name, value=value, expected=expected)


def _check_source(options: Mapping[str, str]) -> None:
    strategies = [n for n in ("subscribe", "subscribePattern", "assign") if n in options]
    if not strategies:
        raise option_error(
            "EOSKAFKA_OPTION_MISSING",
            option="subscribe, subscribePattern or assign",
            side="source",
        )
    if len(strategies) > 1:
        raise _invalid(
            strategies[1],
            options[strategies[1]],
            "left out, because only one of subscribe, subscribePattern and assign can be set",
        )
    if not options[strategies[0]].replace(",", "").strip():
        raise _invalid(strategies[0], options[strategies[0]], "a value that is not empty")
    is_shared = options.get("ownership", "").strip().lower() == "shared"
    if is_shared:
        _check_shared(options)
    elif options.get("handover", "").strip().lower() == "true":
        raise _invalid("handover", options["handover"], "false unless ownership=shared is set")
    elif options.get("kafka.group.protocol", "").strip() == "consumer":
        raise _invalid(
            "kafka.group.protocol",
            options["kafka.group.protocol"],
            "classic unless ownership=shared is set: with ownership=exclusive, a restarted driver"
            " takes its former place in the group at once, and the consumer protocol does not"
            " allow that before the session of the former member has ended",
        )
    least, most = options.get("minOffsetsPerTrigger"), options.get("maxOffsetsPerTrigger")
    if least and most and int(least) > int(most):
        raise _invalid("minOffsetsPerTrigger", least, "at most maxOffsetsPerTrigger")
    slots, tasks = options.get("slots"), options.get("minPartitions")
    if slots and tasks and int(tasks) > int(slots):
        raise _invalid(
            "minPartitions",
            tasks,
            f"at most {int(slots)}, the value of slots; leave slots out to have as many tasks as"
            " minPartitions says",
        )


def _check_shared(options: Mapping[str, str]) -> None:
    if "kafka.group.id" not in options:
        raise option_error(
            "EOSKAFKA_OPTION_MISSING",
            option="kafka.group.id, which its drivers share",
            side="source",
        )
    if "assign" in options:
        raise _invalid(
            "ownership",
            options["ownership"],
            "exclusive with assign, because a shared group distributes all partitions of a topic",
        )
    for name in ("minPartitions", "maxRecordsPerPartition"):
        if name in options:
            raise _invalid(
                name,
                options[name],
                "left out with ownership=shared, because one task then reads a whole partition;"
                " set slots to have more tasks",
            )


def _check_sink(options: Mapping[str, str]) -> None:
    for name in ("transactionalIdPrefix", "decisionTopic"):
        if name in options and not options[name].strip():
            raise _invalid(name, options[name], "a value that is not empty")
    decisions = options.get("decisionTopic", table()["decisiontopic"]["default"])
    if options.get("topic", "").strip() == decisions:
        raise _invalid(
            "topic",
            options["topic"],
            "another topic than the one of the decisions (decisionTopic)",
        )
    # The transactional ids of batch jobs have -job after the prefix, and are recognized by it.
    prefix = options.get("transactionalIdPrefix", "")
    if prefix.endswith("-job"):
        raise _invalid("transactionalIdPrefix", prefix, "a prefix that does not end in -job")
    if "commitIntervalMs" in options and options.get("transactionScope", "").lower() == "epoch":
        raise _invalid(
            "commitIntervalMs",
            options["commitIntervalMs"],
            "left out with transactionScope=epoch, because a batch then takes effect as a whole",
        )
    if "registerTopics" in options:
        given = options["registerTopics"]
        topics = [topic.strip() for topic in given.split(",")]
        if not all(topics):
            raise _invalid(
                "registerTopics", given, "a list of topic names, with commas between them"
            )
        topic = options["topic"].strip() if "topic" in options else None
        if topic is not None and topic not in topics:
            raise _invalid(
                "registerTopics",
                given,
                f"a list that contains {topic}, the value of the option topic",
            )
