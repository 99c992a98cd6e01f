"""The site has each page, its links lead somewhere, and what is made of the code is made."""

import re
import sys
from pathlib import Path
from typing import Any

import typer.main

import snowmelt
from snowmelt.cli.main import COMMANDS
from snowmelt.client.pool.options import PoolOptions
from snowmelt.client.queue.options import QueueOptions
from snowmelt.client.worker.options import CommonOptions
from snowmelt.core import errors
from snowmelt.runtime.limits import Limits

HOUSE = Path(__file__).parents[1]
sys.path.insert(0, str(HOUSE / "scripts"))

import reference  # noqa: E402
import site_alone  # noqa: E402

DOCS = HOUSE / "docs"
NAMED = re.compile(r"^ *- .*?: (\S+\.md)$", re.MULTILINE)


def page(name: str) -> str:
    return (DOCS / name).read_text()


def test_the_site_names_each_page_once() -> None:
    named = NAMED.findall((HOUSE / "mkdocs.yml").read_text())
    there = {str(one.relative_to(DOCS)) for one in DOCS.rglob("*.md")}
    assert sorted(named) == sorted(there | set(reference.PAGES) | {"changelog.md"})


def test_a_site_that_loads_from_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="https://b.example">b</a><script src=a.js></script>'
    )
    assert list(site_alone.faults(tmp_path)) == []
    for text in (
        '<link rel="stylesheet" href="https://fonts.example/a.css">',
        "<script src=//a.example/x.js></script>",
        "<pre class=mermaid>",
    ):
        (tmp_path / "index.html").write_text(text)
        assert len(list(site_alone.faults(tmp_path))) == 1, text


def test_the_page_of_errors_has_each() -> None:
    made = reference.errors_page()
    for name in snowmelt.__all__:
        one = getattr(snowmelt, name)
        if isinstance(one, type) and issubclass(one, Exception):
            row = re.search(rf"^\| [- ]*`{name}` \| (\d+) \| (yes|no) \|", made, re.MULTILINE)
            assert row, name
            assert (int(row[1]), row[2]) == (one.exit_code, "yes" if one.definite else "no")


def test_the_page_of_commands_has_each_option() -> None:
    made = reference.commands()
    for names in COMMANDS.values():
        for name in names:
            assert f"\n### snowmelt {name}\n" in made
    assert "| `--durable-copies` " in made
    assert "### snowmelt baton run" in made


def test_the_page_of_rights_is_as_the_code_has_it() -> None:
    assert page("reference/rights.md") == reference.rights(), "make rights"
    assert page("reference/roles.md") == reference.roles(), "make rights"


def test_the_page_of_the_api_has_each_name() -> None:
    made = reference.api()
    for name in snowmelt.__all__:
        one = getattr(snowmelt, name)
        if not name.startswith("__") and not (isinstance(one, type) and issubclass(one, Exception)):
            assert f"\n### {name}\n" in made
    assert "#### Fifo.put_many" in made
    assert ">>> orders.put" not in made.partition("```pycon")[0]


def kinds(root: Any) -> set[Any]:
    return {root, *(one for each in root.__subclasses__() for one in kinds(each))}


def test_the_page_of_exit_codes_has_those_of_all_errors() -> None:
    codes = set(re.findall(r"^\| (\d+)", page("reference/exit-codes.md"), re.MULTILINE))
    ours = {one for one in kinds(errors.SnowmeltError) if one.__module__ == errors.__name__}
    assert {str(one.exit_code) for one in ours} <= codes


def test_the_page_of_limits_has_each_with_its_default() -> None:
    text = page("reference/limits.md")
    for name in Limits.__struct_fields__:
        default = getattr(Limits(), name)
        said = f"{default >> 20} MiB" if name.endswith(("_bytes", "_max")) else f"{default:g}"
        row = next(line for line in text.splitlines() if f"| `{name}` |" in line)
        assert row.split("|")[3].strip().removesuffix(" s") == said, name


def test_the_pages_of_settings_have_each_option() -> None:
    text = page("reference/queue-settings.md") + page("how-to/priorities.md")
    for name in QueueOptions.__annotations__:
        assert f"`{name}`" in text, name
    for name in PoolOptions.__annotations__:
        assert f"`{name}`" in page("reference/pool.md"), name
    for name in CommonOptions.__annotations__:
        assert f"`{name}`" in page("how-to/worker.md"), name


def test_the_page_of_a_node_has_each_option() -> None:
    text = page("reference/node.md")
    whole = typer.main.get_command(reference.commands_of(["node"]))
    node = whole.get_command(typer.Context(whole), "node")  # type: ignore[attr-defined]
    for one in node.params:
        assert f"`{one.opts[0]}`" in text, one.opts
