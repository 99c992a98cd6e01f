"""What mkdocs asks when it builds the site: pages made of the code, and links that leave `docs`."""

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import reference  # it lies beside this file

HOUSE: Final = Path(__file__).parents[1]
LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
CHANGES: Final = "changelog.md"


def on_files(files: Files, config: Any) -> Files:
    """Adds what is made of the code, and the changelog, which lies above the pages."""
    for name, made in reference.PAGES.items():
        files.append(File.generated(config, name, content=made()))
    changes = (HOUSE / "CHANGELOG.md").read_text()
    text = LINK.sub(lambda found: inside(found, Path(), CHANGES), changes).replace("](docs/", "](")
    files.append(File.generated(config, CHANGES, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """A link to a file of the source is its name, as the site has no such file."""
    name = page.file.src_uri
    if name == CHANGES:
        return markdown
    folder = Path("docs") / Path(name).parent
    changes = os.path.relpath(CHANGES, folder.relative_to("docs"))
    return LINK.sub(lambda found: inside(found, folder, changes), markdown)


def inside(found: re.Match[str], folder: Path, changes: str) -> str:
    """The link, as the site has it."""
    text, where, anchor = found[1], found[2], found[3] or ""
    target = os.path.normpath(folder / where)
    if "://" in where or target.startswith("docs/"):
        return found[0]
    return f"[{text}]({changes}{anchor})" if target == "CHANGELOG.md" else text
