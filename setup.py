"""Builds the connector's jar into the package; all else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent / "python"))

from eoskafka._jar import ensure_built
from eoskafka.errors import JarError


class BuildWithJar(build_py):
    """A wheel carries the jar. An editable install reads it from the checkout: `make build`."""

    def run(self) -> None:
        if not self.editable_mode:
            try:
                ensure_built()
            except JarError as error:
                raise SystemExit(f"error: {error}") from error
            # The list of data files may have been made before the jar was.
            self.__dict__.pop("data_files", None)
        super().run()


setup(cmdclass={"build_py": BuildWithJar})
