"""`python -m eoskafka` is the command line."""

from eoskafka.cli import main

main()
