"""The version, here and nowhere else; pyproject.toml and the jar's build read it."""

__version__ = "0.1.0"
