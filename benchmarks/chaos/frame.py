"""What programs that kill have in common: options, a folder that stays when something is wrong."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

import msgspec

from snowmelt.cli.local import end_on_sigterm


class Result(Protocol):
    """What a run came to; `broken` has a sentence for each promise that was."""

    broken: list[str]


def say(text: str) -> None:
    """A line beside the result, which alone is on standard output."""
    print(text, file=sys.stderr, flush=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every such program."""
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None, help="where the disks are made")
    parser.add_argument("--keep", action="store_true", help="keep everything in any case")
    parser.add_argument("--json", action="store_true")


def framed(
    options: argparse.Namespace,
    prefix: str,
    run: Callable[[argparse.Namespace, Path], Any],
    show: Callable[[Any], None],
) -> int:
    """Runs it in a folder of its own, tells what came of it; the exit code."""
    if options.seed is None:
        options.seed = Random().randrange(1_000_000)
    end_on_sigterm()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=options.folder))
    say(f"seed {options.seed}, in {folder}")
    keep = True
    try:
        result = run(options, folder)
        keep = options.keep or bool(result.broken)
    finally:
        if keep:
            say(f"all of it is kept in {folder}")
        else:
            shutil.rmtree(folder)
    if options.json:
        print(msgspec.json.encode(result).decode())
    else:
        show(result)
    return 1 if result.broken else 0
