"""Puts the connector's jar into the package; all else is in pyproject.toml.

The wheel carries the jar, and so does the sdist, beside the sources that it was built from: a wheel
that pip makes of the sdist needs no Maven. In a checkout Maven builds the jar first. The jar's list
of what it contains (SBOM) is in the wheel's metadata too, where PEP 770 has it.

With SOURCE_DATE_EPOCH two builds of the same sources are equal, byte for byte.
"""

import gzip
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent / "python"))

from eoskafka._jar import SBOM, ensure_built
from eoskafka.errors import JarError


def need_jar() -> Path:
    """Build the jar if it is missing or stale; end with its error if that is not possible."""
    try:
        return ensure_built()
    except JarError as error:
        raise SystemExit(f"error: {error}") from error


class BuildWithJar(build_py):
    """A wheel carries the jar. An editable install reads it from the checkout: `make build`."""

    def run(self) -> None:
        if not self.editable_mode:
            need_jar()
            # The list of data files may have been made before the jar was.
            self.__dict__.pop("data_files", None)
        super().run()


class SdistWithJar(sdist):
    """The list of files is made after the jar."""

    def run(self) -> None:
        need_jar()
        super().run()

    def make_distribution(self) -> None:
        """Make the archives, without what differs from one build to the next."""
        super().make_distribution()
        if "SOURCE_DATE_EPOCH" in os.environ:
            for archive in self.archive_files:
                if archive.endswith(".tar.gz"):
                    normalize(Path(archive), int(os.environ["SOURCE_DATE_EPOCH"]))


class WheelWithSbom(bdist_wheel):
    """The list of what the jar contains goes into the wheel's metadata."""

    def write_wheelfile(self, wheelfile_base: str, *arguments: str) -> None:
        """Write the last file of the metadata, and the list beside it."""
        super().write_wheelfile(wheelfile_base, *arguments)
        # An editable install has no jar of its own.
        if (Path(self.bdist_dir) / "eoskafka" / "jars").is_dir():
            target = Path(wheelfile_base) / "sboms" / Path(SBOM).name
            target.parent.mkdir(exist_ok=True)
            with zipfile.ZipFile(need_jar()) as jar:
                target.write_bytes(jar.read(SBOM))


def normalize(archive: Path, seconds: int) -> None:
    """Give each member of a .tar.gz file the same time and owner, and sort the members by name."""
    members: list[tuple[tarfile.TarInfo, bytes]] = []
    with tarfile.open(archive) as packed:
        for member in packed:
            content = packed.extractfile(member)
            members.append((member, content.read() if content else b""))
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=seconds) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for member, content in sorted(members, key=lambda each: each[0].name):
            member.mtime, member.uid, member.gid = seconds, 0, 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            packed.addfile(member, io.BytesIO(content))


setup(
    cmdclass={"build_py": BuildWithJar, "sdist": SdistWithJar, "bdist_wheel": WheelWithSbom},
)
