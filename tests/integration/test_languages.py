"""The programs of docs/languages.md, in Scala, Java and SQL, run by Spark's own commands."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyspark
import pytest
from eoskafka import jar_path
from eoskafka.audit import read_committed
from eoskafka.cluster import LocalCluster
from eoskafka.session import PLUGIN_CLASS
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

SPARK = Path(pyspark.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "languages.md"
RUN_S = 240
RECORDS = 50


def program(language: str, cluster: LocalCluster, tmp_path: Path, name: str) -> str:
    """The page's program in a language, of all its parts, with these topics and this folder."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    replaced = "\n".join(found).replace("broker:9092", cluster.bootstrap_servers)
    replaced = replaced.replace("/checkpoints/", f"{tmp_path}/checkpoints/")
    # Names of topics only: the table's name in SQL stays.
    replaced = re.sub(r"""(["'])payments-clean\1""", rf"\1{name}-clean\1", replaced)
    return re.sub(r"""(subscribe\W+?)(["'])payments\2""", rf"\1\2{name}\2", replaced)


@pytest.fixture
def topics(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """An input topic with records, and an output topic, named after the test."""
    name = re.sub(r"\W", "-", request.node.name)
    created = [name, f"{name}-clean"]
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(topic, 2, 1) for topic in created])
        with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
            for number in range(RECORDS):
                producer.send(name, key=b"%d" % number, value=b"payment %02d" % number)
        yield name
        admin.delete_topics(created)


def run(tmp_path: Path, *command: str, stdin: str = "") -> str:
    """A command of Spark's, with the connector and on one core; its standard output."""
    first, *rest = command
    done = subprocess.run(
        [
            *(str(SPARK / "bin" / first), "--master", "local[1]", "--jars", str(jar_path())),
            *("--conf", f"spark.plugins={PLUGIN_CLASS}"),
            *("--conf", "spark.ui.enabled=false", "--driver-java-options", "-Xshare:auto"),
            *rest,
        ],
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-3_000:]
    return done.stdout


def written(cluster: LocalCluster, name: str) -> list[bytes]:
    records = read_committed(cluster.bootstrap_servers, f"{name}-clean")
    return sorted(record.value or b"" for record in records)


EXPECTED = [b"PAYMENT %02d" % number for number in range(RECORDS)]


@pytest.mark.slow
def test_scala_in_spark_shell(cluster: LocalCluster, topics: str, tmp_path: Path) -> None:
    code = program("scala", cluster, tmp_path, topics)
    run(tmp_path, "spark-shell", stdin=f":paste\n{code}\n\x04")
    assert written(cluster, topics) == EXPECTED


@pytest.mark.slow
def test_java_with_spark_submit(cluster: LocalCluster, topics: str, tmp_path: Path) -> None:
    source, classes = tmp_path / "Payments.java", tmp_path / "classes"
    source.write_text(program("java", cluster, tmp_path, topics), encoding="utf-8")
    # Without the connector.
    jars = str(SPARK / "jars" / "*")
    compiler = ["javac", "--release", "17", "-cp", jars, "-d", str(classes), str(source)]
    subprocess.run(compiler, check=True)
    jar = tmp_path / "payments.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
    run(tmp_path, "spark-submit", "--class", "Payments", str(jar))
    assert written(cluster, topics) == EXPECTED


@pytest.mark.slow
def test_sql_in_spark_sql(cluster: LocalCluster, topics: str, tmp_path: Path) -> None:
    script = tmp_path / "payments.sql"
    script.write_text(program("sql", cluster, tmp_path, topics), encoding="utf-8")
    warehouse = f"spark.sql.warehouse.dir={tmp_path}/warehouse"
    output = run(tmp_path, "spark-sql", "--conf", warehouse, "-f", str(script))
    assert output.splitlines()[-1].split("\t") == [str(RECORDS), f"payment {RECORDS - 1:02d}"]
    assert written(cluster, topics) == [*EXPECTED, b"a payment", b"another one"]
