from __future__ import annotations

import subprocess
import sys

import eoskafka
from eoskafka import errors

_IMPORT_ALONE = """
import sys
before = set(sys.modules)
import eoskafka
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(loaded - sys.stdlib_module_names - {"eoskafka"}))
"""


def test_every_public_name_exists_and_is_listed_in_order() -> None:
    assert all(hasattr(eoskafka, name) for name in eoskafka.__all__)
    assert eoskafka.__all__ == sorted(eoskafka.__all__)


def test_importing_the_package_needs_the_standard_library_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALONE], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_error_has_the_one_base_and_is_drawn_in_the_tree() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), eoskafka.EosKafkaError)
        assert name in (errors.__doc__ or "")
