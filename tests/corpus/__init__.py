"""Shows whether a change of the connector changes the outcome of starts.

A cell is one kind of query, brought to one fault point by a former connector. A start with the
former connector and a start with the new one must have the same outcome, whatever it is.

| file                    | holds                                                                |
|-------------------------|----------------------------------------------------------------------|
| `run.py`                | the command: runs cells, compares, prints and writes the report      |
| `cells.py`              | `CELLS`: kinds of queries, and where each of them is interrupted     |
| `stage.py`              | the brokers and applications that cells share                        |
| `outcome.py`            | what a start has left, without ids, places and times                 |
| `stored.py`             | cells whose first half is a file: a checkpoint with its broker's data |
| `swallows.py`           | a program whose `foreachBatch` function catches every error          |
| `jars.py`               | the connector's jar of a commit                                      |
| `expected_changes.json` | the cells whose outcome may differ, what it is then, and why         |
"""
