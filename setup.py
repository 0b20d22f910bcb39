"""Puts the connector's jar into the package; all else is in pyproject.toml.

The wheel carries the jar, and so does the sdist, beside the sources that it was built from: a wheel
that pip makes of the sdist needs no Maven. In a checkout Maven builds the jar first.
"""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent / "python"))

from eoskafka._jar import ensure_built
from eoskafka.errors import JarError


def need_jar() -> None:
    """Build the jar if it is missing or stale; end with its error if that is not possible."""
    try:
        ensure_built()
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


setup(cmdclass={"build_py": BuildWithJar, "sdist": SdistWithJar})
