"""Builds the site into build/site and checks it: `make site`.

A warning of Sphinx is an error, and so is a page that would load anything from another host.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from eoskafka.cluster.jars import cache_dir
from eoskafka.cluster.repository import repository
from staging import ROOT, stage

SITE = ROOT / "build" / "site"
_PAGES = ROOT / "build" / "site-pages"
_PARSED = ROOT / "build" / "site-parsed"

# The script that draws diagrams, as Maven Central has it.
_MERMAID = "org/webjars/npm/mermaid/11.6.0/mermaid-11.6.0.jar"
_MERMAID_SHA256 = "b5431370e8cfa44471ec075f4a6002a1f9b9d97ee534c4e4d693c9c85a0ccba7"
_MERMAID_SCRIPT = "META-INF/resources/webjars/mermaid/11.6.0/dist/mermaid.min.js"

# What a browser loads without being asked to.
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*["']"""
    r"""|<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|preconnect|icon|dns-prefetch)["'])"""
    r"""[^>]*\bhref=["'](?:https?:)?//[^"']*["']"""
    r"""|(?:@import\s+|url\()\s*["']?(?:https?:)?//[^"')]*"""
)


def main() -> None:
    """Build the site, or say what is wrong with it."""
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-c", str(Path(__file__).parent)]
    if stage(_PAGES):
        options.append("-a")
    folders = ["-d", str(_PARSED), str(_PAGES), str(SITE)]
    command = [sys.executable, "-m", "sphinx", *options, *folders]
    if subprocess.run(command, check=False).returncode:
        # Sphinx warns only of what it reads, so the next time it has to read all of it again.
        shutil.rmtree(_PARSED, ignore_errors=True)
        raise SystemExit("the warnings above are errors: the site is not right")
    (SITE / "_static" / "mermaid.min.js").write_bytes(mermaid())
    if found := outside(SITE):
        raise SystemExit("the site would load from other hosts:\n" + "\n".join(found))
    print(f"{SITE.relative_to(ROOT)}/index.html")


def mermaid() -> bytes:
    """The script, from a jar that is downloaded once."""
    jar = cache_dir() / Path(_MERMAID).name
    if not jar.is_file():
        jar.parent.mkdir(parents=True, exist_ok=True)
        unchecked = jar.with_suffix(".part")
        repository().download(_MERMAID, unchecked)
        if hashlib.sha256(unchecked.read_bytes()).hexdigest() != _MERMAID_SHA256:
            raise SystemExit(f"{unchecked} is not the pinned jar: the repository has another file")
        unchecked.rename(jar)
    with zipfile.ZipFile(jar) as archive:
        return archive.read(_MERMAID_SCRIPT)


def outside(site: Path) -> list[str]:
    """What the pages and styles load from other hosts."""
    return [
        f"{file.relative_to(site)}: {found}"
        for pattern in ("*.html", "*.css")
        for file in sorted(site.rglob(pattern))
        for found in _LOADED.findall(file.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    main()
