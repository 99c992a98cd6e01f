"""Runs a command of `snowmelt lab` in this process."""

import json
from typing import Any

import typer
from typer.testing import CliRunner

from snowmelt_lab.cli import lab


def ran(*arguments: str) -> str:
    """What it printed; whatever it raised is raised."""
    app = typer.Typer()
    app.add_typer(lab.lab, name="lab")
    app.command("other")(lambda: None)  # a program of one group alone drops the group's name
    ended = CliRunner().invoke(app, ["lab", *arguments])
    if ended.exception is not None:
        raise ended.exception
    assert ended.stderr == ""
    return ended.stdout


def as_json(*arguments: str) -> dict[str, Any]:
    """The one JSON object that it printed."""
    out = ran(*arguments, "--json")
    assert out.count("\n") == 1
    told = json.loads(out)
    assert isinstance(told, dict)
    return told
