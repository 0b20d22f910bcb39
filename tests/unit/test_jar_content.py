"""What the connector's jar contains: our own classes, those of its list (SBOM), and licences."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka import _jar
from eoskafka.cluster.jars import read_lock

ROOT = Path(__file__).parents[2]
SHADED = "io/eoskafka/shaded/"
# Where Kafka's own build has put what it contains.
IN_KAFKA = SHADED + "kafka/shaded/"
LICENSES = "META-INF/licenses/"


@pytest.fixture(scope="module")
def jar() -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(_jar.ensure_built()) as archive:
        yield archive


@pytest.fixture(scope="module")
def sbom(jar: zipfile.ZipFile) -> dict[str, Any]:
    found = json.loads(jar.read(_jar.SBOM))
    assert isinstance(found, dict)
    return found


def classes(jar: zipfile.ZipFile) -> list[str]:
    return [name for name in jar.namelist() if name.endswith(".class")]


def folder(component: dict[str, Any]) -> str:
    """Where the classes of a component are."""
    (package,) = (
        each["value"] for each in component["properties"] if each["name"] == "eoskafka:package"
    )
    return str(package).replace(".", "/") + "/"


def test_no_class_is_outside_our_own_package(jar: zipfile.ZipFile) -> None:
    assert [name for name in classes(jar) if not name.startswith("io/eoskafka/")] == []


def test_no_class_refers_to_kafkas_own_name(jar: zipfile.ZipFile) -> None:
    named = re.compile(rb"\bL?org/apache/kafka/[\w/$]+")
    found = {name: named.findall(jar.read(name)) for name in classes(jar)}
    assert {name: names for name, names in found.items() if names} == {}


def test_no_other_file_can_be_taken_for_one_of_another_jar(jar: zipfile.ZipFile) -> None:
    files = [name for name in jar.namelist() if not name.endswith("/")]
    own = ("io/eoskafka/", "META-INF/")
    assert [name for name in files if not name.startswith(own)] == []
    # The version that the client reports to brokers.
    version = jar.read(f"{SHADED}kafka/kafka-version.properties").decode()
    kafka = _jar.build_properties(_jar.jar_file())["kafka"]
    assert f"version={kafka}" in version.splitlines()
    reader = jar.read(f"{SHADED}kafka/common/utils/AppInfoParser.class")
    assert f"/{SHADED}kafka/kafka-version.properties".encode() in reader


def test_every_service_is_of_the_jars_own_classes(jar: zipfile.ZipFile) -> None:
    prefix = "META-INF/services/"
    found = {
        name.removeprefix(prefix): [
            line.strip()
            for line in jar.read(name).decode().splitlines()
            if line.strip() and not line.strip().startswith("#")
        ]
        for name in jar.namelist()
        if name.startswith(prefix) and not name.endswith("/")
    }
    assert set(found) == {
        "org.apache.spark.sql.sources.DataSourceRegister",
        "io.eoskafka.shaded.kafka.common.config.provider.ConfigProvider",
    }
    for service, implementations in found.items():
        assert implementations, service
        for name in implementations:
            assert f"{name.replace('.', '/')}.class" in jar.namelist()


def test_every_class_is_of_one_component_that_the_list_names(
    jar: zipfile.ZipFile, sbom: dict[str, Any]
) -> None:
    components = [sbom["metadata"]["component"], *sbom["components"]]
    folders = {folder(each): each["name"] for each in components}
    assert len(folders) == len(components)
    counts = dict.fromkeys(folders.values(), 0)
    for name in classes(jar):
        # The innermost of those that it is in.
        counts[folders[max((each for each in folders if name.startswith(each)), key=len)]] += 1
    assert all(counts.values()), counts
    inner = [each for each in folders if each.startswith(IN_KAFKA)]
    unnamed = [name for name in classes(jar) if name.startswith(IN_KAFKA)]
    assert [name for name in unnamed if not name.startswith(tuple(inner))] == []
    shaded = [name for name in classes(jar) if name.startswith(SHADED)]
    assert [name for name in shaded if not name.startswith(SHADED + "kafka/")] == []


def test_the_list_has_the_versions_and_digests_of_what_was_built_in(sbom: dict[str, Any]) -> None:
    built = _jar.build_properties(_jar.jar_file())
    own = sbom["metadata"]["component"]
    assert own["version"] == built["version"]
    assert {"name": "eoskafka:sources-sha256", "value": built["sources"]} in own["properties"]
    kafka = sbom["components"][0]
    assert (kafka["name"], kafka["version"]) == ("kafka-clients", built["kafka"])
    (locked,) = (each for each in read_lock() if each.artifact == "kafka-clients")
    assert locked.version == built["kafka"]
    assert kafka["hashes"] == [{"alg": "SHA-256", "content": locked.sha256}]
    for each in sbom["components"]:
        assert re.fullmatch(r"[0-9a-f]{64}", each["hashes"][0]["content"])
        assert each["purl"] == f"pkg:maven/{each['group']}/{each['name']}@{each['version']}"
        assert each["licenses"]


def test_the_list_is_valid_cyclonedx(jar: zipfile.ZipFile) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(jar.read(_jar.SBOM).decode())
    assert error is None


def test_the_licences_of_everything_are_in_the_jar(
    jar: zipfile.ZipFile, sbom: dict[str, Any]
) -> None:
    for name in ("LICENSE", "NOTICE"):
        assert jar.read(f"META-INF/{name}") == (ROOT / name).read_bytes()
    notice = jar.read("META-INF/NOTICE").decode()
    texts = {"Apache-2.0": "Apache License", "BSD-3-Clause": "Neither the name of Google"}
    for each in sbom["components"]:
        (licence,) = each["licenses"]
        text = jar.read(f"{LICENSES}{each['name']}/LICENSE").decode()
        assert texts[licence["license"]["id"]] in text
        assert each["name"] in notice
    kafka = jar.read(f"{LICENSES}kafka-clients/NOTICE").decode()
    assert kafka.startswith("Apache Kafka\nCopyright ")
