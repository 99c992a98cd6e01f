"""Prints the shape of the house, now or at a revision, and holds the pages to plain sentences.

`python scripts/shape.py` prints lines, files, classes, functions, names that several classes share,
short docstrings, and how long sentences are. `--at REVISION` prints the same of an earlier tree.
`--check` fails where a page that is not research has sentences that are too long.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Final

HOUSE: Final = Path(__file__).parents[1]
ROOTS: Final = ("src", "world/src", "lab/src", "doors/src")
APART: Final = "research"
"""The folder of `docs` whose pages may have long sentences."""

MEAN_MAX: Final = 17
WORDS_MAX: Final = 40
SHORT: Final = 4

SKIPPED: Final = ("|", "#", "!", "<", ">>>", "...")
BREAKS: Final = re.compile(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ")


def main() -> None:
    """Prints, and fails where a page is too hard to read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", metavar="REVISION")
    parser.add_argument("--check", action="store_true")
    wanted = parser.parse_args()
    if wanted.check:
        sys.exit("\n".join(too_hard(HOUSE)) or None)
    if wanted.at is None:
        show(HOUSE)
        return
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", wanted.at],  # noqa: S607  # whichever git is there
            cwd=HOUSE,
            check=True,
            capture_output=True,
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as tree:
            tree.extractall(folder, filter="data")
        show(Path(folder))


def show(house: Path) -> None:
    """One row for each distribution that is there, and one for each page."""
    for root in ROOTS:
        files = sorted((house / root).rglob("*.py"))
        if files:
            print(f"{root}: " + ", ".join(f"{value:,} {name}" for name, value in shape(files)))
    for page in pages(house):
        print(f"{page.relative_to(house)}: {described(page)}")


def shape(files: list[Path]) -> Iterator[tuple[str, int]]:
    """Counts over these files."""
    trees = {file: ast.parse(file.read_text()) for file in files}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    shared = [count for count in Counter(one.name for one in classes).values() if count > 1]
    texts = [
        text
        for one in (*trees.values(), *classes, *functions)
        if (text := ast.get_docstring(one)) is not None
    ]
    lengths = [length for text in texts for length in words_of(text)]
    yield "lines", sum(len(file.read_text().splitlines()) for file in files)
    yield "files", len(files)
    yield "classes", len(classes)
    yield "classes that share a name", sum(shared)
    yield "functions", len(functions)
    yield "docstrings", len(texts)
    yield f"of {SHORT} words or less", sum(len(text.split()) <= SHORT for text in texts)
    yield "words in a sentence of theirs in the mean", round(mean(lengths))
    yield f"sentences over {WORDS_MAX}", sum(length > WORDS_MAX for length in lengths)


def pages(house: Path) -> list[Path]:
    """All that a person reads."""
    return [*sorted((house / "docs").rglob("*.md")), house / "README.md"]


def described(page: Path) -> str:
    """How long a page is, and its sentences."""
    text = page.read_text()
    lengths = words_of(text) or [0]
    long = sum(length > WORDS_MAX for length in lengths)
    return (
        f"{len(text.split()):,} words, {mean(lengths):.1f} in a sentence, {long} over {WORDS_MAX}"
    )


def too_hard(house: Path) -> Iterator[str]:
    """What a page must not have."""
    for page in pages(house):
        if page.parent.name == APART:
            continue
        lengths = words_of(page.read_text())
        if lengths and (mean(lengths) > MEAN_MAX or max(lengths) > WORDS_MAX):
            allowed = f"at most {MEAN_MAX} in the mean, and {WORDS_MAX} in each"
            yield f"{page.relative_to(house)}: {described(page)}; allowed: {allowed}"


def words_of(text: str) -> list[int]:
    """How many words each sentence has; code, tables and headings have none.

    >>> words_of("Two words. It is `x = 1`, and so on.")
    [2, 6]
    """
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = (line for line in text.splitlines() if not line.strip().startswith(SKIPPED))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines))
    text = re.sub(r"`[^`]*`", "code", text)
    return [
        len(words)
        for block in BREAKS.split(text)
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(block.split()))
        if len(words := sentence.split()) > 1
    ]


if __name__ == "__main__":
    main()
