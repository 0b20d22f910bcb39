"""A hundred thousand inputs for each reader of Python, from a seed that is printed.

`PYTHONPATH=tests .venv/bin/python -m fuzz [--tries N] [--seed N] [--corpus FILE]`. With the corpus
that the connector's own tests have written, Python is asked for the same. Exit code 0: everything
held. 1: something did not; its reader, seed and number are printed.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path
from random import Random, SystemRandom

from fuzz import corpus, readers


def main() -> int:
    """Run everything; the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tries", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    options.add_argument("--corpus", type=Path)
    asked = options.parse_args()
    failed = 0
    for reader in readers.ALL:
        failed += not _holds(reader, asked.seed, asked.tries)
    if asked.corpus:
        lines = asked.corpus.read_text(encoding="utf-8").splitlines()
        different = [line for line in lines if not corpus.agrees(line)]
        for line in different[:5]:
            print(f"Python reads it in another way: {line:.2000}")
        print(f"corpus: {len(lines)} inputs of the connector's, {len(different)} read otherwise")
        failed += bool(different)
    return 1 if failed else 0


def _holds(reader: readers.Reader, seed: int, tries: int) -> bool:
    began = time.monotonic()
    read = 0
    for number in range(tries):
        try:
            read += reader(Random(f"{seed}:{number}"))
        except Exception:
            traceback.print_exc()
            print(f"{reader.__name__}: fails at seed {seed}, input {number}")
            return False
    took = time.monotonic() - began
    print(f"{reader.__name__}: {tries} inputs of seed {seed} in {took:.0f} s, {read} of them read")
    return True


if __name__ == "__main__":
    sys.exit(main())
