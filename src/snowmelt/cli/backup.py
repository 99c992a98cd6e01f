"""`snowmelt backup` and `restore`: queues of a running cluster, or of a folder, in files."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from snowmelt.cli.options import HERE, AsJson, PlaceOptions
from snowmelt.cli.queue_show import so_many
from snowmelt.client.backup.face import Backup
from snowmelt.core.errors import BadOption
from snowmelt.core.shown import printable

ENDING: Final = ".backup"


def backup(
    to: Annotated[
        Path, typer.Argument(help=f"A folder, for a file of each queue; or NAME{ENDING}, for one.")
    ],
    queues: Annotated[
        list[str] | None, typer.Argument(help="Which queues; all, if none is named.")
    ] = None,
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Copy queues into files, while they go on. Each is as it was at one moment."""
    one = to.name.endswith(ENDING)
    if one and len(queues or ()) != 1:
        text = f"a folder, or one queue by its name: snowmelt backup {to} QUEUE"
        raise BadOption("the place", str(to), text)
    done: list[Backup] = []
    with at.open() as cluster:
        names = queues or cluster.queues(timeout=at.timeout)
        if not one:
            _folder(to)
        for name in names:
            path = to if one else to / f"{name}{ENDING}"
            with bar(name) as progress:
                told = cluster.backup(name, path, timeout=at.timeout, progress=progress)
            done.append(told)
            if not as_json:
                print(f"{name}: {_size(told)} in {path}{_lost(told)}")
    if as_json:
        print(json.dumps({"backups": msgspec.to_builtins(done)}))
    elif not names:
        print("there are no queues")


def restore(
    file: Annotated[
        Path, typer.Argument(help="What backup has written: a file, or a folder of them.")
    ],
    name: Annotated[
        str | None, typer.Option("--as", help="Another name for the queue; of one file.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(help="How many copies there are to be; if not as there were.")
    ] = None,
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Make queues of a backup. One that is there already is left as it is, and refused."""
    files = sorted(file.glob(f"*{ENDING}")) if file.is_dir() else [file]
    if name is not None and file.is_dir():
        raise BadOption("--as", name, "only with one file, not with a folder")
    if not files:
        raise BadOption("the folder", str(file), f"one with files NAME{ENDING}")
    done: list[Backup] = []
    with at.open() as cluster:
        for path in files:
            with bar(path.name) as progress:
                told = cluster.restore(
                    path, name=name, replicas=replicas, timeout=at.timeout, progress=progress
                )
            done.append(told)
            if not as_json:
                print(printable(f"{told.queue}: {_size(told)} from {path}"))
    if as_json:
        print(json.dumps({"restored": msgspec.to_builtins(done)}))


def _size(told: Backup) -> str:
    return f"{so_many(told.items)}, {told.bytes:,} bytes"


def _lost(told: Backup) -> str:
    if not told.lost:
        return ""
    return f"; {so_many(told.lost)} can't be read from any copy, and left out"


def _folder(to: Path) -> None:
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption("the place", str(to), f"a folder ({error.strerror})") from None


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Progress on a terminal, and silence in a pipe."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
