"""The commands of docs/research/claims.md can be run as they stand there."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from click import Command, Context, Group

from snowmelt.cli.main import program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "research" / "claims.md").read_text()
SHORT = {
    "lab pool": "snowmelt lab pool --objects 4000000 --half-width 0",
    "lab figures": "snowmelt lab figures",
}
COMMANDS = sorted(set(re.findall(r"`((?:snowmelt|lab|python|pytest) [^`]+)`", PAGE)))


def parsed(words: list[str]) -> Context:
    """Every option read and checked for its type, and nothing done."""
    command: Command = typer.main.get_command(program(words))
    context = command.make_context("snowmelt", [], resilient_parsing=True)
    while isinstance(command, Group):
        command = command.commands[words.pop(0)]
    return command.make_context("snowmelt", words, parent=context)


def test_there_are_commands():
    assert len(COMMANDS) > 30


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_one(command):
    for short, long in SHORT.items():
        if command.startswith(short):
            command = long + command.removeprefix(short)
    first, *words = shlex.split(command)
    if first == "snowmelt":
        assert parsed(words).params
    else:
        assert (ROOT / words[0]).exists()
