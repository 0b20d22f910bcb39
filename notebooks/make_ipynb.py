"""Makes the executed `walkthrough.ipynb` of `walkthrough.py`, a notebook in Databricks' format.

    python notebooks/make_ipynb.py

needs `pip install 'eoskafka[dev]'`.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode, v4

SOURCE = Path(__file__).with_name("walkthrough.py")
TARGET = SOURCE.with_suffix(".ipynb")

_HEAD = "# Databricks notebook source"
_BETWEEN = "# COMMAND ----------"
_MAGIC = "# MAGIC"
_TEXT = "%md"
_CELL_TIMEOUT_S = 300


def notebook() -> NotebookNode:
    """The notebook, not executed."""
    head, _, text = SOURCE.read_text(encoding="utf-8").partition("\n")
    if head != _HEAD:
        raise ValueError(f"{SOURCE} does not begin with {_HEAD!r}")
    cells = [_cell(number, part.strip()) for number, part in enumerate(text.split(_BETWEEN))]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _cell(number: int, text: str) -> NotebookNode:
    if text.startswith(_MAGIC):
        lines = [line.removeprefix(_MAGIC).removeprefix(" ") for line in text.splitlines()]
        if lines[0] != _TEXT:
            raise ValueError(f"cell {number}: {lines[0]!r} is not {_TEXT}")
        cell = v4.new_markdown_cell("\n".join(lines[1:]))
    else:
        cell = v4.new_code_cell(text)
    # The ids are the same every time, so that a diff shows only what has changed.
    cell["id"] = f"cell-{number}"
    return cell


def execute(made: NotebookNode, folder: Path) -> None:
    """Run all cells in a process of their own; CellExecutionError if one fails."""
    resources = {"metadata": {"path": folder}}
    # Gracefully, so that the kernel stops the broker that it has started.
    client = NotebookClient(
        made, timeout=_CELL_TIMEOUT_S, resources=resources, shutdown_kernel="graceful"
    )
    client.execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            # Messages of Spark's JVM as it starts.
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]


if __name__ == "__main__":
    found = notebook()
    execute(found, SOURCE.parent)
    nbformat.write(found, TARGET)
