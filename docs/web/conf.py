"""Sphinx's configuration of the site: `make site`."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from eoskafka import __version__
from sphinx.application import Sphinx

project = "eoskafka"
version = release = __version__
html_title = f"eoskafka {__version__}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns: list[str] = []

# As GitHub reads a page: its own tables and anchors.
myst_heading_anchors = 4
myst_enable_extensions = ["strikethrough"]
highlight_language = "text"
# They would turn `--jars` into a dash.
smartquotes = False

autodoc_default_options = {"members": True, "exclude-members": "SIDE"}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("Offsets", "Time", "Times")}
add_module_names = False
python_maximum_signature_line_length = 88
# Docstrings set code in single backticks.
default_role = "code"
napoleon_use_ivar = True

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def setup(app: Sphinx) -> None:
    """Connect what this file changes in pages."""
    app.connect("autodoc-process-docstring", _links)
    app.connect("autodoc-process-signature", _signature)
    app.connect("doctree-read", _fields)
    app.connect("html-page-context", _diagrams)


def _links(*event: Any) -> None:
    """Make links of the pages that a docstring names."""
    lines = event[-1]
    lines[:] = [re.sub(r"docs/([\w-]+)\.md", r":doc:`/\1`", line) for line in lines]


def _signature(*event: Any) -> tuple[str | None, str | None]:
    """Write defaults and aliases as the source does."""
    signature, returns = event[-2:]
    if signature:
        signature = signature.replace("<factory>", "{}")
        signature = re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", signature)
    return signature, returns


def _fields(_: Sphinx, page: nodes.document) -> None:
    """Write dashes, which autodoc leaves to smartquotes, and the name that docstrings use."""
    written = {" -- ": " \N{EN DASH} ", "Variables": "Attributes"}
    for text in list(page.findall(nodes.Text)):
        if text in written:
            text.parent.replace(text, nodes.Text(written[text]))


def _diagrams(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _: Any) -> None:
    """Give pages with a diagram the script that draws it."""
    if 'class="mermaid"' in context.get("body", ""):
        app.add_js_file("mermaid.min.js")
        app.add_js_file("diagrams.js")
