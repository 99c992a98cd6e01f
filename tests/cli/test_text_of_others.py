"""What others wrote is text on a terminal: nothing is obeyed, and nothing is a mark of rich's."""

import io
import json
import logging
import sys

import pytest
from rich.console import Console

from snowmelt.cli.get import as_seen
from snowmelt.cli.tables import listing
from snowmelt.runtime.logs import JsonLines

CODES = "\x1b]0;title\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize("text", [CODES, "[/x]", "[bold]", "[link=http://evil]here[/link]"])
def test_a_cell_shows_what_others_wrote(text: str) -> None:
    shown = io.StringIO()
    table = listing(("name", "count"), words=("name",), title=text)
    table.add_row(text, "1")
    Console(file=shown, width=200, no_color=True).print(table)
    told = shown.getvalue()
    assert (told + "\n").replace("\n", "").isprintable()
    assert told.count(text.encode("unicode_escape").decode() if text is CODES else text) == 2


def test_a_line_of_a_log_has_no_code_that_a_terminal_obeys() -> None:
    record = logging.LogRecord("snowmelt", logging.INFO, "", 0, "refused", (), None)
    record.fields = {"of": f"{CODES}\x7f", "name": "café"}
    line = JsonLines().format(record)
    assert line.isprintable()
    assert json.loads(line)["of"] == f"{CODES}\x7f"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_body_is_written_as_it_is_but_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    body = f"one\ttwo\n{CODES}".encode() + b"\xff"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    told = bytes(as_seen(body))
    assert (told == body) is not terminal
    if terminal:
        assert told.startswith(b"one\ttwo\n")
        assert told.decode().replace("\n", "").replace("\t", "").isprintable()
