"""`GuardedCluster`: a broker on which users may do what was granted to them, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker
from eoskafka.cluster.local import free_ports
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from harness.waiting import until

CONF = Path(__file__).parents[3] / "conf"
USERS = ("job", "team-a", "team-b")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PRINCIPAL = "User:of-the-script"
_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}
# In place of Kafka's own script: it prints its arguments, one a line, and an empty line.
_KAFKA_ACLS = '#!/bin/sh\nprintf "%s\\n" "$@" ""\n'


@dataclass(frozen=True)
class Right:
    """One operation on one resource.

    Attributes:
        operation: as `kafka-acls.sh` has it: `Read`, `DescribeConfigs`.
        kind: `topic`, `group`, `transactional-id` or `cluster`.
        name: of the resource; empty for the cluster.
        is_prefix: whether it is for all names that begin so.
    """

    operation: str
    kind: str
    name: str = ""
    is_prefix: bool = False

    def acl(self, user: str) -> ACL:
        """The rule that grants it."""
        pattern = ACLResourcePatternType.PREFIXED if self.is_prefix else _LITERAL
        operation = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.operation).upper()
        return ACL(
            *(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW),
            ResourcePattern(_KINDS[self.kind], self.name or "kafka-cluster", pattern),
        )


_LITERAL = ACLResourcePatternType.LITERAL


def granted_by(script: str, folder: Path, **variables: str) -> list[Right]:
    """What a script of conf/ grants, with these values of its variables.

    Args:
        folder: for a stand-in of `kafka-acls.sh`, which the script calls.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    stand_in = folder / "kafka-acls.sh"
    stand_in.write_text(_KAFKA_ACLS, encoding="utf-8")
    stand_in.chmod(0o755)
    said = subprocess.run(
        ["sh", str(CONF / script)],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "PRINCIPAL": _PRINCIPAL, **variables},
    )
    calls = said.stdout.strip("\n").split("\n\n")
    return [right for call in calls for right in _rights(call.split("\n"))]


def _rights(arguments: list[str]) -> list[Right]:
    """What a call grants. It fails on an argument that could grant more: to others, or to all."""
    left = list(arguments)
    assert left[:1] == ["--bootstrap-server"], arguments
    assert left[2:5] == ["--add", "--allow-principal", _PRINCIPAL], arguments
    del left[:5]
    operations = []
    while left[:1] == ["--operation"]:
        operations.append(left[1])
        del left[:2]
    kind = left.pop(0).removeprefix("--")
    assert kind in _KINDS, arguments
    name = "" if kind == "cluster" else left.pop(0)
    assert name != "*", arguments
    assert left in ([], ["--resource-pattern-type", "prefixed"]), arguments
    return [Right(each, kind, name, bool(left)) for each in operations]


class GuardedCluster:
    """A broker with two listeners: one for the tests, who may do anything, and one for users.

    Attributes:
        cluster: `cluster.bootstrap_servers` is the tests' listener.
    """

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self.cluster = LocalCluster(brokers=1, data_dir=folder, properties=self._settings)

    def __enter__(self) -> GuardedCluster:
        self.cluster.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.cluster.stop()

    def client(self, user: str = "job") -> dict[str, str]:
        """Settings of a Kafka client of this user."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self._port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_PLAIN} username="{user}" password="of-{user}";',
        }

    def options(self, user: str = "job") -> dict[str, str]:
        """The same for a source or sink."""
        return {f"kafka.{name}": value for name, value in self.client(user).items()}

    def grant(self, rights: Iterable[Right], user: str = "job") -> None:
        """Give a user these rights and no others, and wait until the broker knows."""
        wanted = [right.acl(user) for right in rights]
        everything = ACLFilter(
            *(f"User:{user}", None, ACLOperation.ANY, ACLPermissionType.ANY),
            ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
        )
        with closing(KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers)) as admin:

            def known() -> int:
                return len(admin.describe_acls(everything)[0])

            admin.delete_acls([everything])
            until(lambda: known() == 0, f"the end of {user}'s rights", 20)
            if wanted:
                admin.create_acls(wanted)
            until(lambda: known() == len(set(wanted)), f"the rights of {user}", 20)

    def _settings(self, broker: Broker) -> dict[str, str]:
        passwords = " ".join(f'user_{user}="of-{user}"' for user in USERS)
        public = f"PLAINTEXT://127.0.0.1:{broker.port},USERS://127.0.0.1:{self._port}"
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listeners": f"{public},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": public,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f"{_PLAIN} {passwords};",
        }
