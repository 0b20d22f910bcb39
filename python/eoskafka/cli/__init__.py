"""The command line: `eoskafka <noun> <verb>`.

Data goes to standard output, messages to standard error. Exit codes: 0 done, 1 refused, failed or
violated, 2 usage, 3 unreachable or undecidable. One file per noun; `app.py` joins them.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point: run the command, turn our errors into messages and exit codes."""
    from eoskafka.cli.app import run

    sys.exit(run(sys.argv[1:]))
