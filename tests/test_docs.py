"""Pages lead where they say, and what the page of the queue shows can be run."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

import snowmelt

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CHANGELOG.md",
]
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names that its headings have, as GitHub makes them."""
    texts = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text) for text in HEADING.findall(page.read_text())
    )
    return {re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        where, _, anchor = link.partition("#")
        target = page if not where else page.parent / where
        if link.startswith("https://"):
            continue
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_the_readmes_ten_lines_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text()
    exec(BLOCK.findall(readme)[0], {})
    assert f"```\n{capsys.readouterr().out}```" in readme


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / "docs" / page).read_text())


def test_what_the_pages_of_queues_show_can_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (first,) = blocks("reference/queues.md")
    here = {"snowmelt": snowmelt, "time": time}
    folder = f'open("{tmp_path / "q.snow"}")'
    first, changed = re.subn(r'connect\("[^"]*"\)', folder, first)
    assert changed == 1
    exec(first, here)
    assert capsys.readouterr().out.splitlines() == [
        "0 b'one'",
        "0 b'fire!'",
        "2 b'sweep the yard'",
        "2 b'dust'",
    ]
    awaited = blocks("how-to/asyncio.md")[0]
    exec(re.sub(r'connect\("[^"]*"\)', folder, awaited), {})
    assert capsys.readouterr().out.splitlines() == ["0 b'one'", "1 b'two'"]
    with snowmelt.open(tmp_path / "q.snow") as cluster:
        again: dict[str, Any] = {**here, "cluster": cluster}
        exec(blocks("how-to/priorities.md")[0], again)
        assert capsys.readouterr().out.count("send the bill") == 2
        exec(blocks("explanation/partitions.md")[0], again)
        for queue in (again["log"], again["urgent"]):
            queue.put(b"one")
            assert queue.stats().settings.partitions == 8
        (values,) = blocks("how-to/values.md")
        exec(values, again)
        told = values.partition("body)  # ")[2].splitlines()[0]
        assert capsys.readouterr().out.strip() == told


def test_a_how_to_is_one_task() -> None:
    for page in sorted((ROOT / "docs" / "how-to").glob("*.md")):
        assert len(page.read_text().split()) <= 800, page.name
