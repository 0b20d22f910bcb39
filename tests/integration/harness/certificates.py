"""An authority of the tests, and what it issues, in the formats of Java's and of other clients."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_FIRST_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_DAY = datetime.timedelta(days=1)


class Authority:
    """It issues certificates, and writes all files into one folder.

    Attributes:
        trust: its own certificate, as PEM.
        password: of all stores and private keys.
    """

    def __init__(self, folder: Path, password: str) -> None:
        self.folder = folder
        self.password = password
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        now = datetime.datetime.now(datetime.timezone.utc)
        self._certificate = (
            _builder("authority", now + 30 * _DAY)
            .public_key(self._key.public_key())
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.trust = folder / "authority.pem"
        self.trust.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, host: str = "127.0.0.1", ends: datetime.datetime | None = None
    ) -> Issued:
        """A new key and its certificate, for a broker at `host` or for a client.

        Args:
            name: the common name, also of the files. Files that are there are replaced.
            host: the only name or address that the certificate is for.
            ends: when it expires; None: in thirty days.
        """
        now = datetime.datetime.now(datetime.timezone.utc)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = (
            x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        )
        certificate = (
            _builder(name, ends or now + 30 * _DAY)
            .public_key(key.public_key())
            .issuer_name(self._name)
            .add_extension(x509.SubjectAlternativeName([subject]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        issued = Issued(self.folder / name, self.password)
        encrypted = BestAvailableEncryption(self.password.encode())
        chain = [certificate, self._certificate]
        texts = [
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            *(each.public_bytes(Encoding.PEM) for each in chain),
        ]
        issued.pem.write_bytes(b"".join(texts))
        issued.pkcs12.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), key, certificate, [self._certificate], encrypted
            )
        )
        return issued

    def trust_store(self, kind: str) -> Path:
        """Its certificate in a store of this kind, `JKS` or `PKCS12`."""
        store = self.folder / f"trust.{kind.lower()}"
        _keytool(
            *("-importcert", "-noprompt", "-alias", "authority", "-file", str(self.trust)),
            *("-keystore", str(store), "-storetype", kind, "-storepass", self.password),
        )
        return store


class Issued:
    """A key and its certificates, in files.

    Attributes:
        pem: the key, not encrypted, its certificate, and the authority's.
        pkcs12: the same as a store with a password.
    """

    def __init__(self, path: Path, password: str) -> None:
        self.pem = path.with_suffix(".pem")
        self.pkcs12 = path.with_suffix(".p12")
        self._password = password

    def key(self) -> str:
        """The private key alone, as PEM."""
        return self.pem.read_text("utf-8").partition(_FIRST_CERTIFICATE)[0]

    def chain(self) -> str:
        """The certificates alone, as PEM."""
        return "".join(self.pem.read_text("utf-8").partition(_FIRST_CERTIFICATE)[1:])

    def jks(self) -> Path:
        """The same as a store of Java's own kind."""
        store = self.pem.with_suffix(".jks")
        store.unlink(missing_ok=True)
        _keytool(
            *("-importkeystore", "-srckeystore", str(self.pkcs12), "-srcstoretype", "PKCS12"),
            *("-srcstorepass", self._password, "-destkeystore", str(store)),
            *("-deststoretype", "JKS", "-deststorepass", self._password),
        )
        return store


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(name: str, ends: datetime.datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(ends, datetime.datetime.now(datetime.timezone.utc)) - _DAY)
        .not_valid_after(ends)
    )


def _keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)
