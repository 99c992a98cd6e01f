"""Each line for the changelog is one of its kinds, and short enough to be read."""

import re
import tomllib
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
NEWS = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in NEWS["type"]]


def faults(name: str, text: str) -> list[str]:
    """What is wrong with one fragment."""
    said = " ".join(text.split())
    sentences = re.findall(r"[.!](?= |$)", re.sub(r"`[^`]*`", "name", said))
    return [
        fault
        for fault, wrong in {
            f"call it <word>.<{'|'.join(KINDS)}>.md": not re.fullmatch(
                rf"[a-z0-9][a-z0-9_-]*\.({'|'.join(KINDS)})\.md", name
            ),
            "write one sentence or two": not 1 <= len(sentences) <= 2,
            "end with a full stop": not said.endswith("."),
            "write at most 60 words": len(said.split()) > 60,
            "write no list and no heading": said.startswith(("-", "*", "#")) or "\n\n" in text,
        }.items()
        if wrong
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("drain.fixd.md", "A node drains."),
        ("Drain.fixed.md", "A node drains."),
        ("drain.md", "A node drains."),
        ("drain.fixed.txt", "A node drains."),
        ("drain.fixed.md", ""),
        ("drain.fixed.md", "A node drains"),
        ("drain.fixed.md", "One. Two. Three."),
        ("drain.fixed.md", "- A node drains."),
        ("drain.fixed.md", "# Drain\n\nA node drains."),
        ("drain.fixed.md", "word " * 60 + "end."),
    ],
)
def test_a_fragment_that_is_none_is_refused(name: str, text: str) -> None:
    assert faults(name, text)


def test_each_fragment_has_a_kind_and_is_short() -> None:
    assert not faults("drain.fixed.md", "`snowmelt.open(...)` waits. A node\ndrains 2.5 times.\n")
    folder = HOUSE / NEWS["directory"]
    for file in sorted(folder.iterdir()):
        if file.name not in NEWS["ignore"]:
            assert not faults(file.name, file.read_text()), file.name


def test_a_release_finds_its_place_in_the_changelog() -> None:
    page = (HOUSE / NEWS["filename"]).read_text()
    assert page.count(NEWS["start_string"]) == 1
    assert page.index(NEWS["start_string"]) < page.index("## [")
    assert (HOUSE / NEWS["template"]).exists()
