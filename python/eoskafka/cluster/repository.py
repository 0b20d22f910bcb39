"""Jars from a Maven repository over HTTPS, with Python alone: neither Maven nor a proxy of ours.

Which repository:

1. `$EOSKAFKA_MAVEN_REPOSITORY`, a URL; a user's name and password may be in it.
2. The mirror of Maven Central in the user's `settings.xml`, with the name and password that the
   file has for it.
3. Maven Central.

`https_proxy` and `no_proxy` are honoured, and so is `SSL_CERT_FILE`. What is downloaded is compared
with a pinned digest by the caller, so it does not matter which repository answers.
"""

from __future__ import annotations

import base64
import dataclasses
import http.client
import os
import re
import shutil
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from eoskafka.errors import ClusterError

VARIABLE = "EOSKAFKA_MAVEN_REPOSITORY"
CENTRAL = "https://repo1.maven.org/maven2"

# For one answer of the repository, or one piece of a file: not for the whole of it.
_TIMEOUT_S = 60
_ATTEMPTS = 3


@dataclasses.dataclass(frozen=True)
class Repository:
    """A Maven repository.

    Attributes:
        url: where it is, without credentials.
        credentials: `user:password`, or None. Never shown.
    """

    url: str
    credentials: str | None = dataclasses.field(default=None, repr=False)

    @staticmethod
    def of(url: str) -> Repository:
        """The repository of a URL that may hold credentials."""
        parts = urlsplit(url.strip().rstrip("/"))
        credentials, _, host = parts.netloc.rpartition("@")
        plain = urlunsplit((parts.scheme, host, parts.path, "", ""))
        return Repository(plain, unquote(credentials) or None)

    def download(self, path: str, target: Path) -> None:
        """Put the file `path` of the repository into `target`.

        Raises:
            ClusterError: the repository does not give it, in three attempts.
        """
        # Any scheme: the URL is of the user's settings, and the file is compared with its digest.
        request = urllib.request.Request(f"{self.url}/{path}")  # noqa: S310
        if self.credentials is not None:
            code = base64.b64encode(self.credentials.encode()).decode()
            # Not `add_header`: a redirect to another host must not carry the password.
            request.add_unredirected_header("Authorization", f"Basic {code}")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with (
                    urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer,  # noqa: S310
                    target.open("wb") as file,
                ):
                    shutil.copyfileobj(answer, file)
                return
            except (OSError, http.client.HTTPException) as error:
                # The repository has answered, and will give the same answer again.
                is_final = isinstance(error, urllib.error.HTTPError) and error.code < 500
                if is_final or attempt == _ATTEMPTS:
                    raise ClusterError(
                        f"{request.full_url} could not be downloaded: {error}. Nothing was "
                        f"started. If this machine does not reach {CENTRAL}, set {VARIABLE} to "
                        "the URL of a mirror of it, or https_proxy to a proxy. If the mirror's "
                        "certificate is not known here, set SSL_CERT_FILE."
                    ) from error


def repository() -> Repository:
    """The repository that this user's settings name; Maven Central if they name none."""
    if own := os.environ.get(VARIABLE):
        return Repository.of(own)
    settings = Path.home() / ".m2" / "settings.xml"
    return _mirror(settings) or Repository(CENTRAL)


def _mirror(settings: Path) -> Repository | None:
    """The mirror of Maven Central in Maven's settings, or None."""
    if not settings.is_file():
        return None
    try:
        # Maven's settings are the user's own, as Maven itself takes them.
        root = ET.fromstring(settings.read_bytes())  # noqa: S314
    except ET.ParseError as error:
        raise ClusterError(
            f"{settings} cannot be read ({error}). Nothing was started. Correct the file, or set "
            f"{VARIABLE} to the URL of a Maven repository."
        ) from error
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        if _covers_central(_text(mirror, "mirrorOf")):
            found = Repository.of(_text(mirror, "url"))
            credentials = _credentials(root, _text(mirror, "id"))
            return dataclasses.replace(found, credentials=credentials or found.credentials)
    return None


def _covers_central(mirror_of: str) -> bool:
    names = {name.strip() for name in mirror_of.split(",")}
    return "!central" not in names and bool(names & {"*", "central", "external:*"})


def _credentials(root: ET.Element, server_id: str) -> str | None:
    for server in root.iterfind("{*}servers/{*}server"):
        user, password = _text(server, "username"), _text(server, "password")
        if _text(server, "id") == server_id and user:
            if re.fullmatch(r".*\{.*\}.*", password):
                raise ClusterError(
                    f"Maven's settings have an encrypted password for the server {server_id}, "
                    f"which only Maven can read. Nothing was started. Set {VARIABLE} to "
                    "https://USER:PASSWORD@HOST/PATH of that repository."
                )
            return f"{user}:{password}"
    return None


def _text(element: ET.Element, name: str) -> str:
    """The text of a child, with `${env.NAME}` replaced as Maven does it."""
    text = (element.findtext(f"{{*}}{name}") or "").strip()
    return re.sub(r"\$\{env\.(\w+)\}", lambda found: os.environ.get(found[1], ""), text)
