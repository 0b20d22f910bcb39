"""The benchmarks' tables and plots, from `reports/bench`: `make docs`, and `make bench`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "reports" / "bench"
_BUILT_IN = ("built-in", "built-in, eoskafka's settings")
_REAL_TIME = "eoskafka, real-time"
_OTHER_RECORDS = ("throughput-1k", "throughput-10k", "throughput-1m", "throughput-pandas")
_LATENCIES = ("latency", "latency-20k", "latency-2p", "latency-quick-logs")
# Of `make bench-far`.
_ROUND_TRIPS_MS = (1, 5, 20)
# Of the rounds of one peer, for a row of the overview.
_MOST_APART = 1.5
_HEAD = [
    "| Measure | eoskafka | Other system, default client settings | "
    "Other system, eoskafka's client settings |",
    "|---|---|---|---|",
]


def has(name: str) -> bool:
    """Whether there is such a result."""
    return (RESULTS / f"{name}.json").is_file()


def result(name: str) -> dict[str, Any]:
    """What `eoskafka bench --format json` has written."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    assert found["holds"], f"{name}: a run was wrong; measure again"
    return found


def summary() -> str:
    """For the README: four rows."""
    peers, latency = result("throughput")["peers"], result("latency")["peers"]
    built_in, streams = "built-in connector", "Kafka Streams `exactly_once_v2`"

    def row(measure: str, other: str, labels: Iterable[str], figure: Callable[[str], str]) -> str:
        ours, *others = map(figure, labels)
        return (
            f"| {measure} | {ours} | " + " | ".join(f"{each} ({other})" for each in others) + " |"
        )

    def p99(label: str) -> str:
        return f"{_number(latency[label]['p99_ms'])} ms"

    both = ("eoskafka", *_BUILT_IN)
    lines = [
        *_HEAD,
        row("Rows per second", built_in, both, lambda label: _number(peers[label]["rows_per_s"])),
        row(
            "CPU time for a million records",
            built_in,
            both,
            lambda label: f"{_number(peers[label]['cpu_s_per_million'], 2)} s",
        ),
        row("p99 latency, micro-batches", built_in, both, p99),
        row("p99 latency, real-time mode", streams, (_REAL_TIME, *_twice("Kafka Streams")), p99),
    ]
    return "\n".join([*lines, "", _where()])


def _where() -> str:
    """The machine and the versions of the figures."""
    found = result("throughput")
    machine, versions = found["machine"], found["versions"]
    return (
        f"Spark and the broker ran on the same {machine['cores']} cores, with Spark "
        f"{machine['spark']}, Kafka {versions['broker']} and Java {machine['java'].split('.')[0]}. "
        "Each figure is a median of several runs. No run lost or duplicated a record."
    )


def overview() -> str:
    """For docs/benchmarks.md: what matters to most users."""
    rows = [
        ("4 M records of 100 B, rows/s", "throughput", _BUILT_IN),
        ("the same, Kafka Streams `exactly_once_v2`", "throughput", _twice("Kafka Streams")),
        ("the same, Flink", "throughput", _twice("Flink")),
        ("the same, a Java loop with transactions", "throughput", _twice("Java loop")),
        ("1 M records of 1 KiB, rows/s", "throughput-1k", _BUILT_IN),
        ("200,000 records of 10 KiB, rows/s", "throughput-10k", _BUILT_IN),
        ("3,000 records of 1 MB, rows/s", "throughput-1m", _BUILT_IN),
        ("2 M records through `mapInPandas`, rows/s", "throughput-pandas", _BUILT_IN),
    ]
    lines = [
        "| | eoskafka | built-in (or the named peer), its defaults | with eoskafka's settings |",
        "|---|---|---|---|",
    ]
    for text, name, labels in rows:
        if not has(name):
            continue
        peers = result(name)["peers"]
        if not peers.keys() >= set(labels):
            # Measured before these took part.
            continue
        lines.append(
            f"| {text} | {_number(peers['eoskafka']['rows_per_s'])} | "
            + " | ".join(
                f"{_number(peers[label]['rows_per_s'])} "
                f"(x {peers[label]['eoskafka_over_it']['median']:.2f})"
                for label in labels
            )
            + " |"
        )
    peers = result("throughput")["peers"]
    ours = _number(peers["eoskafka"]["cpu_s_per_million"], 2)
    lines.append(
        f"| CPU seconds per million records | {ours} | "
        + " | ".join(
            f"{_number(peers[label]['cpu_s_per_million'], 2)} "
            f"(x {peers[label]['eoskafka_cpu_over_its']['median']:.2f})"
            for label in _BUILT_IN
        )
        + " |"
    )
    streams, flink = _twice("Kafka Streams"), _twice("Flink")
    modes = [
        ("latency", "micro-batches", "eoskafka", "eoskafka", _BUILT_IN),
        (
            *("latency", "eoskafka in real-time mode, built-in in micro-batches"),
            *(_REAL_TIME, "real_time", _BUILT_IN),
        ),
        ("latency", "real-time mode, Kafka Streams", _REAL_TIME, "real_time", streams),
        ("latency", "real-time mode, Flink", _REAL_TIME, "real_time", flink),
        ("latency-20k", "real-time mode, Kafka Streams", _REAL_TIME, "real_time", streams),
        ("latency-20k", "real-time mode, Flink", _REAL_TIME, "real_time", flink),
    ]
    for file, text, ours_label, ours_over, labels in modes:
        if not has(file):
            continue
        found = result(file)
        latency = found["peers"]
        for name in ("p50", "p99") if latency.keys() >= {ours_label, *labels} else ():
            spreads = [latency[label][f"{name}_ms"] for label in (ours_label, *labels)]
            if any(each["greatest"] > _MOST_APART * each["least"] for each in spreads):
                # The median of such rounds means little; they are only in the detailed tables.
                continue
            ours = _number(latency[ours_label][f"{name}_ms"])
            lines.append(
                f"| {name} at {found['settings']['rate']:,} records/s; {text} | {ours} ms | "
                + " | ".join(
                    f"{_number(latency[label][f'{name}_ms'])} ms "
                    f"(x {latency[label][f'{ours_over}_over_its_{name}']['median']:.2f})"
                    for label in labels
                )
                + " |"
            )
    lines += ["", _where()]
    return "\n".join(lines)


def details() -> str:
    """For docs/benchmarks.md: a table for each benchmark that has been run."""
    parts: dict[str, Callable[[], str]] = {
        "throughput": _throughput,
        **{name: partial(_latency, name) for name in _LATENCIES},
        "interval": _interval,
        "scale": _scale,
        "epoch": _epoch,
    }
    made = [part() for name, part in parts.items() if has(name)]
    return "\n\n".join([*made, _far()] if _distances() else made)


def _throughput() -> str:
    found = result("throughput")
    lines = [
        f"**Throughput**: {_settings(found)}",
        "",
        "| peer | guarantee | rows/s | lowest | highest | CPU s/M | broker's CPU s/M | MiB "
        "| eoskafka / it |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, peer in found["peers"].items():
        rows, ratio = peer["rows_per_s"], peer["eoskafka_over_it"]
        lines.append(
            f"| {label} | {peer['guarantee']} | {_number(rows)} | {rows['least']:,.0f} | "
            f"{rows['greatest']:,.0f} | {_number(peer['cpu_s_per_million'], 2)} | "
            f"{_number(peer['broker_cpu_s_per_million'], 2)} | {_number(peer['peak_mib'])} | "
            + (f"{ratio['median']:.2f} |" if label != "eoskafka" else "|")
        )
    limits = found["limits"]
    lines += [
        "",
        f"Reading alone: {_number(limits['read only'])} rows/s; writing alone: "
        f"{_number(limits['write only'])}; one after the other: {_number(limits['both'])}. "
        f"eoskafka relative to the latter: {limits['eoskafka_over_both']['median']:.2f}.",
        "",
        "| records | peer | rows/s | eoskafka | eoskafka / it |",
        "|---|---|---|---|---|",
    ]
    for name in filter(has, _OTHER_RECORDS):
        other = result(name)
        for label in _BUILT_IN:
            peer = other["peers"][label]
            lines.append(
                f"| {_settings(other)} | {label} | {_number(peer['rows_per_s'])} | "
                f"{_number(other['peers']['eoskafka']['rows_per_s'])} | "
                f"{peer['eoskafka_over_it']['median']:.2f} |"
            )
    return "\n".join(lines)


def _latency(name: str) -> str:
    found = result(name)
    given = found["settings"]
    # Results of former versions have none.
    conf = "".join(f", `{key}={value}`" for key, value in given.get("spark_conf", {}).items())
    lines = [
        f"**Latency**: {given['rate']:,} records/s of {given['record_bytes']} B, "
        f"{given['partitions']} partitions, {given['rounds']} rounds of {given['seconds']} s"
        f"{conf}{_made(found)}; ms, medians of the rounds (lowest to highest)",
        "",
        "| peer | p50 | p99 | eoskafka real-time / its p50 | p99 | batch "
        "| of which Spark's offset log and commit log | reading and writing |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for label, peer in found["peers"].items():
        runs = [run for run in found["runs"] if run["peer"] == label and run["round"] > 0]
        batch = "| | | |"
        if runs[-1]["batch_ms"] is not None:
            parts = [
                (
                    run["batch_ms"],
                    run["durations_ms"]["walCommit"] + run["durations_ms"]["commitOffsets"],
                    run["durations_ms"]["addBatch"],
                )
                for run in runs
            ]
            batch = "| " + " | ".join(
                f"{statistics.median(each):,.0f}" for each in zip(*parts, strict=True)
            )
            batch += " |"
        ratios = [
            f"{peer[f'real_time_over_its_{each}']['median']:.2f}" if label != _REAL_TIME else ""
            for each in ("p50", "p99")
        ]
        lines.append(
            f"| {label} | {_spread(peer['p50_ms'])} | {_spread(peer['p99_ms'])} "
            f"| {' | '.join(ratios)} {batch}"
        )
    return "\n".join(lines)


def _interval() -> str:
    found = result("interval")
    given = found["settings"]
    stream = given["stream"]
    # Results of former versions have eoskafka alone, and do not name it.
    peers = dict.fromkeys(of.get("peer", _REAL_TIME) for of in found["intervals"])
    lines = [
        f"**Commit intervals** in real-time mode: {stream['rate']:,} records/s for "
        f"{stream['seconds']} s after {stream['warm_up_s']} s, and {given['backlog']:,} records at "
        f"once, {given['rounds']} rounds each{_made(found)}; ms, medians (lowest to highest)",
        "",
        "| peer | interval | p50 | p99 | flush | offsets | end | rows/s of a backlog "
        "| compared with the longest interval |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {peer} | {of['interval_ms']} | {_spread(of['p50_ms'])} | {_spread(of['p99_ms'])} | "
        + " | ".join(_number(of["transaction_ms"][part], 1) for part in of["transaction_ms"])
        + f" | {_spread(of['rows_per_s'])} | {_spread(of['throughput_kept'], 2)} |"
        for peer in peers
        for of in found["intervals"]
        if of.get("peer", _REAL_TIME) == peer
    ]
    return "\n".join(lines)


def _scale() -> str:
    found = result("scale")
    lines = [
        f"**Scale**: {found['settings']['records']:,} records in each number of partitions"
        f"{_made(found)}",
        "",
        "| part | peer | one producer | size | rows/s | planning a batch | transactional ids "
        "| in the broker | requests per transaction |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in found["cases"]:
        planning = case["planning_ms"]
        lines.append(
            f"| {case['part']} | {case['peer']} | "
            f"{case['producers'] if case['peer'] == 'eoskafka' else ''} | {case['size']:,} | "
            f"{_number(case['rows_per_s'])} | {f'{_number(planning)} ms' if planning else ''} | "
            f"{_text(case['transactional_ids'])} | {_text(case['producer_states'])} | "
            f"{case['requests'] if case['requests'] is not None else ''} |"
        )
    by_partitions = {
        case["size"]: case["rows_per_s"]["median"]
        for case in found["cases"]
        if (case["part"], case["producers"]) == ("partitions", "per slot") and case["rows_per_s"]
    }
    if {8, 2_000} <= by_partitions.keys():
        ratio = by_partitions[2_000] / by_partitions[8]
        lines += ["", f"Rows per second with 2,000 input partitions, relative to 8: {ratio:.2f}."]
    return "\n".join(lines)


def _epoch() -> str:
    found = result("epoch")
    commit = found["commit_ms"]
    ratios = ", ".join(
        f"eoskafka / {label}: {ratio['median']:.2f} (in individual rounds {ratio['least']:.2f} to "
        f"{ratio['greatest']:.2f})"
        for label, ratio in found["eoskafka_over"].items()
    )
    return (
        f"**Epochs**{_made(found)}: batch time of the plan *windows*, {ratios}; commit time of "
        f"{found['settings']['writers']} writers: {_number(commit)} ms ({commit['least']:,.0f} to "
        f"{commit['greatest']:,.0f})."
    )


def _distances() -> list[int]:
    """Of the brokers, in milliseconds: those at which everything was measured."""
    benchmarks = ("throughput", "latency", "epoch")
    return [ms for ms in _ROUND_TRIPS_MS if all(has(f"{each}-far-{ms}") for each in benchmarks)]


def _far() -> str:
    """What depends on the distance of the brokers."""
    return f"{_far_peers()}\n\n{_far_epochs()}"


def _far_peers() -> str:
    """Rows per second and latency, a row for each distance and peer."""
    first = _of_distance("throughput", _distances()[0])
    latency = _of_distance("latency", _distances()[0])["settings"]
    lines = [
        f"**Far brokers**: three brokers, three replicas; {_settings(first)}; and "
        f"{latency['rate']:,} records/s, {latency['rounds']} rounds of {latency['seconds']} s; "
        "medians (lowest to highest)",
        "",
        "| round trip | peer | rows/s | eoskafka / it | p50, ms | p99, ms |",
        "|---|---|---|---|---|---|",
    ]
    for round_trip_ms in _distances():
        rates, delays = (
            _of_distance(benchmark, round_trip_ms)["peers"]
            for benchmark in ("throughput", "latency")
        )
        for label in {**rates, **delays}:
            rate, delay = rates.get(label, {}), delays.get(label, {})
            ratio = "" if label == "eoskafka" else _number(rate.get("eoskafka_over_it"), 2)
            lines.append(
                f"| {round_trip_ms} ms | {label} | {_spread(rate.get('rows_per_s'))} | {ratio} | "
                f"{_spread(delay.get('p50_ms'))} | {_spread(delay.get('p99_ms'))} |"
            )
    return "\n".join(lines)


def _far_epochs() -> str:
    """The time of an epoch by the distance of the brokers."""
    given = _of_distance("epoch", _distances()[0])
    settings = given["settings"]
    others = list(given["eoskafka_over"])
    writers = {"windows": settings["shuffle_partitions"], "writers": settings["writers"]}
    lines = [
        f"**Epochs on far brokers**{_made(given)}: medians of {settings['rounds']} rounds, ms",
        "",
        "| round trip | batch of the plan *windows* | "
        + " | ".join(f"eoskafka / {label}" for label in others)
        + "".join(f" | commit of {count} writers" for count in writers.values())
        + " |",
        "|---" * (2 + len(others) + len(writers)) + "|",
    ]
    for round_trip_ms in _distances():
        found = _of_distance("epoch", round_trip_ms)
        runs = [r for r in found["runs"] if r["peer"] == "eoskafka" and r["round"] > 0]
        lines.append(
            f"| {round_trip_ms} ms | {_median_ms(runs, 'windows', 'batch_ms'):,.0f} | "
            + " | ".join(_spread(found["eoskafka_over"][label], 2) for label in others)
            + "".join(f" | {_median_ms(runs, plan, 'commit_ms'):,.0f}" for plan in writers)
            + " |"
        )
    return "\n".join(lines)


def _median_ms(runs: Iterable[dict[str, Any]], plan: str, field: str) -> float:
    return float(statistics.median(ms for run in runs if run["plan"] == plan for ms in run[field]))


def _of_distance(benchmark: str, round_trip_ms: int) -> dict[str, Any]:
    return result(f"{benchmark}-far-{round_trip_ms}")


def _twice(name: str) -> tuple[str, str]:
    return name, f"{name}, eoskafka's settings"


def _settings(found: dict[str, Any]) -> str:
    given = found["settings"]
    plan = ", `mapInPandas`" if given["plan"] == "pandas" else ""
    return (
        f"{given['records']:,} of {given['record_bytes']:,} B{plan}, {given['rounds']} rounds"
        f"{_made(found)}"
    )


def _made(found: dict[str, Any]) -> str:
    """When, and with which sources of the connector; older results do not say it."""
    machine = found["machine"]
    if "connector" not in machine:
        return ""
    return f" ({machine['date']}, sources `{machine['connector']}`)"


def _number(spread: dict[str, float] | None, digits: int = 0) -> str:
    return f"{spread['median']:,.{digits}f}" if spread else "-"


def _spread(spread: dict[str, float] | None, digits: int = 0) -> str:
    if not spread:
        return "-"
    ends = f"({spread['least']:,.{digits}f} to {spread['greatest']:,.{digits}f})"
    return f"{_number(spread, digits)} {ends}"


def _text(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None else ""


def draw_plots() -> None:
    """A plot beside each result that has one."""
    from eoskafka.bench.plots import draw

    for name in filter(has, ("throughput", *_LATENCIES, "interval", "scale")):
        draw(result(name), RESULTS / f"{name}.png")
