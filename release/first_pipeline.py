"""From the pages to a pipeline with a schema, dead letters and an alert: `make first-pipeline`.

It follows docs/schemas.md, docs/dead-letters.md and docs/metrics.md as a new user does who has been
through the quickstart: with the wheel of `make release`, in an empty folder. The schema registry is
that of the tests, and Prometheus is Debian's. The report is reports/first-pipeline.md.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import check
import first_hour
from first_hour import ROOT, WHEEL, Job, Terminal

sys.path[:0] = [str(ROOT / "tests" / "integration")]

from harness.registry import RegistryServer  # noqa: E402

REPORT = ROOT / "reports" / "first-pipeline.md"
UNTIL_KILL_S = 25.0
UNTIL_READ_S = 300.0
UNTIL_ALERT_S = 120.0
PROMETHEUS = "127.0.0.1:9090"
VERIFY = (
    "eoskafka verify --input orders --output clean --dead-letters orders-dead --group orders "
    "--by key --bootstrap-servers $SERVERS"
)

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "price", "type": "double"},
    ],
}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
LATER = {**ORDER, "fields": [*ORDER["fields"], NOTE]}

# The producer of the orders, which is not eoskafka's: every hundredth order is cut off.
PRODUCER = """\
import json
import os
import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

first, end, schema, damaged = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "1"
servers = {"bootstrap.servers": os.environ["SERVERS"]}
topics = [NewTopic(name, 4, 1) for name in ("orders", "clean", "orders-dead")]
admin = AdminClient(servers)
if first == 0:
    for made in admin.create_topics(topics).values():
        made.result()
registry = SchemaRegistryClient({"url": os.environ["REGISTRY"]})
settings = {"auto.register.schemas": False}
serializer = AvroSerializer(registry, json.dumps(json.loads(schema)), conf=settings)
context = SerializationContext("orders", MessageField.VALUE)
producer = Producer(servers)
for id in range(first, end):
    order = {"id": id, "customer": f"c{id % 50}", "price": id / 4, "note": None}
    value = serializer(order, context)
    if damaged and id % 100 == 37:
        value = value[:-3]
    producer.produce("orders", key=b"%d" % id, value=value)
producer.flush()
"""

_HEAD = """\
# From the pages to a pipeline

Written by `make first-pipeline`. It follows [schemas.md](../docs/schemas.md),
[dead-letters.md](../docs/dead-letters.md) and [metrics.md](../docs/metrics.md) in an empty folder,
with the wheel that `make release` has built: no checkout, no Maven, and no Python package that was
downloaded before. The schema registry is the one of the tests, because no other can be had there.
Every hundredth of the orders is cut off. The numbers in brackets are seconds since the start.

- Commit: {commit}. Python {python}, {cores} cores.

| step | page | seconds |
|---|---|---|
{steps}

```
"""


def page(name: str) -> str:
    """A page of the documentation."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def program(servers: str, registry: str, folder: Path) -> str:
    """The whole program of schemas.md, with the lines of metrics.md, for this machine."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", page("schemas.md"), re.M | re.S)
    (found,) = [block for block in blocks if "try_decode" in block and "import" in block]
    (metrics,) = re.findall(r"^import eoskafka.metrics\n\nexporter = .*$", page("metrics.md"), re.M)
    kill = 'print("to kill it: kill -9", spark._jvm.ProcessHandle.current().pid(), flush=True)'
    changes = {
        '"broker:9092"': f'"{servers}"',
        "SparkSession.builder": 'SparkSession.builder.master("local[2]")',
        '"https://registry:8081", auth=("user", "password")': f'"{registry}"',
        '"/checkpoints/': f'"{folder}/checkpoints/',
        '("includeHeaders", "true")': '("includeHeaders", "true")\n    .option('
        '"maxOffsetsPerTrigger", "20")',
        ".getOrCreate()\n": f".getOrCreate()\n{metrics}\n{kill}\n",
    }
    for former, new in changes.items():
        assert former in found, former
        found = found.replace(former, new)
    return found


def wait_for_alert(terminal: Terminal, condition: str) -> None:
    """Until Prometheus says that the query has failed with this condition, and nothing else."""
    deadline = time.monotonic() + UNTIL_ALERT_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://{PROMETHEUS}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        firing = [each["labels"] for each in alerts if each["state"] == "firing"]
        names = [(labels["alertname"], labels.get("condition")) for labels in firing]
        if names == [("EoskafkaQueryFailed", condition)]:
            terminal.note(f"Prometheus: {names[0][0]} is firing, with the condition {condition}")
            return
        time.sleep(0.5)
    raise SystemExit(f"no alert within {UNTIL_ALERT_S:.0f} s")


def follow(terminal: Terminal, registry: RegistryServer) -> list[tuple[str, str, float]]:
    """Do what the pages say; return each step with its page and its seconds."""
    steps: list[tuple[str, str, float]] = []
    began = 0.0

    def done(step: str, of_page: str) -> None:
        nonlocal began
        now = terminal.seconds()
        steps.append((step, of_page, now - began))
        began = now

    (terminal.folder / WHEEL.name).write_bytes(WHEEL.read_bytes())
    (terminal.folder / "produce.py").write_text(PRODUCER, encoding="utf-8")
    terminal.run("python3 -m venv venv && . venv/bin/activate")
    (install,) = re.findall(r"^pip install .*pyspark==.*$", page("schemas.md"), re.M)
    extras = install.replace("schemas]", "schemas,metrics]").replace("install", "install --quiet")
    terminal.run(extras)
    # The producer's own.
    terminal.run("pip install --quiet 'confluent-kafka[avro]==2.16.1'")
    done("install", "schemas.md, metrics.md")
    servers = re.search(r"127\.0\.0\.1:\d+", terminal.run("eoskafka cluster start"))
    assert servers
    terminal.export("SERVERS", servers[0])
    terminal.export("REGISTRY", registry.url)
    for subject in ("orders-value", "clean-value"):
        registry.add(subject, ORDER)
    terminal.run(f"python produce.py 0 2000 '{json.dumps(ORDER)}' 1")
    done("a broker, topics, schemas and 2,000 orders", "quickstart.md")
    text = program(servers[0], registry.url, terminal.folder)
    (terminal.folder / "job.py").write_text(text, encoding="utf-8")
    job = Job(terminal, 0)
    time.sleep(UNTIL_KILL_S)
    job.kill()
    done("the pipeline, until it is killed", "schemas.md")
    job = Job(terminal, 1)
    terminal.attempt_until(
        VERIFY,
        "exactly once: 2,000 in, 1,980 out, 20 dead letters, 0 lost, 0 duplicated",
        UNTIL_READ_S,
    )
    done("its second run, until everything is out and verified", "verify.md")
    for name in ("prometheus.yml", "prometheus-alerts.yml"):
        shutil.copy(ROOT / "conf" / name, terminal.folder)
    start = re.search(r"prometheus --config.*", (ROOT / "conf" / "prometheus.yml").read_text())
    assert start
    terminal.start(start[0], terminal.folder / "prometheus.log")
    while 'health":"up"' not in _targets():
        time.sleep(0.5)
    terminal.run("eoskafka top --once")
    done("Prometheus asks the query", "metrics.md")
    registry.add("orders-value", LATER)
    terminal.run(f"python produce.py 2000 2005 '{json.dumps(LATER)}' 0")
    wait_for_alert(terminal, "EOSKAFKA_UNKNOWN_SCHEMA_ID")
    done("a record with a new schema, until the alert fires", "runbooks.md")
    job.wait()
    done("the program ends (`linger_s=60`)", "metrics.md")
    job = Job(terminal, 2)
    terminal.attempt_until(
        VERIFY,
        "exactly once: 2,005 in, 1,985 out, 20 dead letters, 0 lost, 0 duplicated",
        UNTIL_READ_S,
    )
    done("its third run, until everything is out and verified", "errors.md")
    terminal.run("eoskafka dead-letters show orders-dead --limit 3 --bootstrap-servers $SERVERS")
    terminal.run(
        "eoskafka dead-letters replay orders-dead --from-beginning "
        "--skip-reason EOSKAFKA_UNDECODABLE_VALUE --bootstrap-servers $SERVERS"
    )
    done("dead letters are shown; none of them can be replayed", "dead-letters.md")
    job.interrupt()
    terminal.run("eoskafka cluster purge")
    return steps


def _targets() -> str:
    try:
        with urllib.request.urlopen(f"http://{PROMETHEUS}/api/v1/targets", timeout=10) as answer:
            text: str = answer.read().decode()
    except OSError:
        return ""
    return text


def main() -> None:
    check.current(WHEEL)
    if shutil.which("prometheus") is None:
        raise SystemExit("There is no command prometheus: install Debian's package of this name")
    registry = RegistryServer()
    with (
        registry.running(),
        tempfile.TemporaryDirectory(prefix="first-pipeline-") as folder,
        Terminal(Path(folder)) as terminal,
    ):
        steps = follow(terminal, registry)
    steps.append(("all", "", sum(seconds for _, _, seconds in steps)))
    head = _HEAD.format(
        **first_hour.provenance(),
        steps="\n".join(f"| {step} | {name} | {seconds:.0f} |" for step, name, seconds in steps),
    )
    REPORT.write_text(head + "\n".join(terminal.transcript).strip() + "\n```\n", encoding="utf-8")
    print(f"{steps[-1][2]:.0f} s: {REPORT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
