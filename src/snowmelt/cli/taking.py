"""`snowmelt get`: items out of a queue, onto standard output or into files.

Nothing is acknowledged before it was written where it was asked to go; what could not be written
goes back into the queue.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from snowmelt.cli.cluster import DEFAULT_URL, TIMEOUT, TOKEN, URL
from snowmelt.cli.queue import DATA, QUEUE, open_queues
from snowmelt.client.fifo import Fifo
from snowmelt.client.items import Items
from snowmelt.core.errors import BadOption, Empty

ITEMS_AT_ONCE = 1000
Write = Callable[[Items], None]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(get)


def get(
    queue: Annotated[str, QUEUE],
    count: Annotated[int, typer.Option("-n", "--count", help="How many at most.")] = 1,
    every: Annotated[bool, typer.Option("--all", help="All there are, whatever -n.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the next item.")] = 0.0,
    lines: Annotated[bool, typer.Option("--lines", help="End each body with a newline.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder; each item becomes a file, named by position.")
    ] = None,
    no_ack: Annotated[bool, typer.Option("--no-ack", help="Put them back in the end.")] = False,
    url: Annotated[str, URL] = DEFAULT_URL,
    data: Annotated[Path | None, DATA] = None,
    token_file: Annotated[Path | None, TOKEN] = None,
    timeout: Annotated[float, TIMEOUT] = 10.0,
) -> None:
    """Take items and write their bodies as they are. Ends with 4 when there was none."""
    if count < 1:
        raise BadOption("--count", count, "1 or more")
    if not 0 <= wait <= 86_400:
        raise BadOption("--wait", wait, "0 to 86400 seconds")
    write = _writer(out, lines)
    console = Console(stderr=True, quiet=sys.stdout.isatty())  # where the bodies themselves show
    with open_queues(url, data, token_file, timeout) as cluster:
        fifo = cluster.fifo(queue)
        with console.status("getting …") as status:
            taken = _take(fifo, sys.maxsize if every else count, wait, write, no_ack, status)
    if not taken:
        raise Empty(f"nothing came into {queue} in {wait:g} s")


def _take(fifo: Fifo, count: int, wait: float, write: Write, no_ack: bool, status: Status) -> int:
    """Takes up to so many, until none comes; how many came."""
    taken, held = 0, list[Items]()
    try:
        while taken < count:
            try:
                items = fifo.get_many(min(count - taken, ITEMS_AT_ONCE), timeout=wait)
            except Empty:
                break
            held.append(items)
            write(items)
            taken += len(items)
            if not no_ack:
                held.pop().ack()
            status.update(f"{taken:,} items taken from {fifo.name} …")
    finally:
        for items in held:
            items.release()
    return taken


def _writer(out: Path | None, lines: bool) -> Write:
    if out is None:
        return lambda items: _write_out(items, b"\n" if lines else b"")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption("--out", str(out), f"a folder ({error.strerror})") from error
    return lambda items: _write_files(items, out)


def _write_out(items: Items, end: bytes) -> None:
    if end:
        sys.stdout.buffer.writelines(bytes(body) + end for body in items.batch)
    else:
        batch = items.batch.trimmed()
        sys.stdout.buffer.write(batch.blob)
    sys.stdout.buffer.flush()


def _write_files(items: Items, folder: Path) -> None:
    for item in items:
        file = folder / f"{item.position:012}"
        try:
            file.write_bytes(item.body)
        except OSError as error:
            raise BadOption("--out", str(file), f"a place to write ({error.strerror})") from error
