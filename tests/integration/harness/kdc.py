"""`Kdc`: MIT Kerberos (Debian's krb5-kdc) on this machine, with keytabs for a broker and a user."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eoskafka.cluster.local import free_ports

from harness.waiting import until

REALM = "TESTS.EXAMPLE"
# Where Debian has what only root runs.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"


def is_installed() -> bool:
    """Whether this machine has a KDC."""
    return shutil.which("krb5kdc", path=_PATH) is not None


class Kdc:
    """A key distribution centre with a realm of its own.

    Attributes:
        config: of clients, for Java's `java.security.krb5.conf`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self._port,) = free_ports(1)
        self.config = folder / "krb5.conf"
        self.config.write_text(
            f"""
[libdefaults]
    default_realm = {REALM}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    udp_preference_limit = 1
[realms]
    {REALM} = {{
        kdc = 127.0.0.1:{self._port}
    }}
""",
            encoding="utf-8",
        )
        profile = folder / "kdc.conf"
        profile.write_text(
            f"""
[kdcdefaults]
    kdc_listen = 127.0.0.1:{self._port}
    kdc_tcp_listen = 127.0.0.1:{self._port}
[realms]
    {REALM} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
""",
            encoding="utf-8",
        )
        self._environment = {
            **os.environ,
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(profile),
        }
        self._run("kdb5_util", "-r", REALM, "-P", "master", "create", "-s")

    @contextmanager
    def running(self) -> Iterator[Kdc]:
        """Start and stop it."""
        with subprocess.Popen(
            ["krb5kdc", "-n"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                until(self._answers, "the KDC", 20)
                yield self
            finally:
                process.terminate()

    def keytab(self, principal: str) -> Path:
        """A new principal's key."""
        file = self.folder / f"{principal.partition('/')[0]}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} {principal}")
        assert file.exists()
        return file

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
            return True
        return False

    def _run(self, *command: str) -> None:
        subprocess.run(command, env=self._environment, check=True, capture_output=True, timeout=60)
