"""Fails where a built site would load something from another host, or a page is missing.

`python scripts/site_alone.py build/site`; `make docs` runs it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOADED: Final = re.compile(
    r"<(?:script|img|iframe|source|video)[^>]*\ssrc=[\"']?(?:https?:)?//[^\"'> ]+"
    r"|<link(?![^>]*rel=[\"']?canonical)[^>]*\shref=[\"']?(?:https?:)?//[^\"'> ]+"
    r"|@import\s+[\"'(url]*(?:https?:)?//[^\"') ]+"
    r"|url\([\"']?(?:https?:)?//[^\"') ]+"
    r"|<(?:pre|div) class=[\"']?mermaid"  # its script would come from unpkg.com
)


def loaded(text: str) -> list[str]:
    """What a page or a style takes from elsewhere.

    >>> loaded('<script src="https://a.example/x.js"></script> <a href="https://b.example">b</a>')
    ['<script src="https://a.example/x.js']
    >>> loaded("<script src=assets/x.js></script>")
    []
    """
    return LOADED.findall(text)


def faults(site: Path) -> Iterator[str]:
    """A line for each."""
    pages = sorted(site.rglob("*.html"))
    if not (site / "index.html").exists():
        yield f"{site} has no index.html"
    for page in (*pages, *sorted(site.rglob("*.css"))):
        for one in loaded(page.read_text()):
            yield f"{page.relative_to(site)}: {one}"


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(sys.argv[1]))) or None)
