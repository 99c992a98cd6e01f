"""`snowmelt get`: items out of a queue, onto standard output or into files.

Nothing is acknowledged before it was written where it was asked to go; what could not be written
goes back into the queue.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import typer
from rich.console import Console

from snowmelt.cli.options import HERE, PlaceOptions, QueueName
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.leases.items import Items
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import BadOption, Empty, NoSuchQueue, SnowmeltError
from snowmelt.core.shown import printable

ITEMS_AT_ONCE = 1000


class GotItems(Protocol):
    """What came of one get, a fifo's items or a pool's objects."""

    @property
    def batch(self) -> Batch:
        """All bodies of the delivery, in order."""

    def ack(self) -> None:
        """All of it is done."""


Held = TypeVar("Held", bound=GotItems)


def get(
    queue: QueueName,
    count: Annotated[int, typer.Option("-n", "--count", help="How many at most.")] = 1,
    every: Annotated[bool, typer.Option("--all", help="All there are; -n is ignored.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the next item.")] = 0.0,
    lines: Annotated[bool, typer.Option("--lines", help="End each body with a newline.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder; each item becomes a file, named by position.")
    ] = None,
    no_ack: Annotated[bool, typer.Option("--no-ack", help="Put them back in the end.")] = False,
    at: PlaceOptions = HERE,
) -> None:
    """Take items and write their bodies as they are.

    Ends with 8 when none came, with 9 when there is no such queue, with 4 when nobody answers.
    """
    limit = checked_count(count, every=every)
    check_wait(wait)
    write = _to_files(folder_for(out)) if out else to_stdout(lines)
    console = Console(stderr=True, quiet=sys.stdout.isatty())  # where the bodies themselves show
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        try:
            with console.status("getting …") as status:
                take(
                    lambda most: found.get_many(most, timeout=wait),
                    write,
                    Items.release,
                    limit,
                    keep=not no_ack,
                    told=lambda count: status.update(f"{count:,} items taken from {queue} …"),
                )
        except Empty as error:
            raise Empty(f"{error}{_why(found, at.timeout) or _longer(wait)}") from None


def _why(found: Fifo | PriorityQueue, timeout: float) -> str:
    """What a queue has that gave nothing; raises `NoSuchQueue` where there is none."""
    try:
        told = found.stats(timeout=timeout)
    except NoSuchQueue:
        raise
    except SnowmeltError:
        return ""
    if told.paused:
        return f"; it is paused, with {told.ready:,} ready: snowmelt resume {found.name}"
    held = [f"{getattr(told, name):,} are {name}" for name in ("leased", "delayed", "dead")]
    some = [one for one in held if not one.startswith("0 ")]
    return f"; of its items {', '.join(some)}" if some else ""


def _longer(wait: float) -> str:
    return "" if wait else "; --wait 10 waits for the next item"


def checked_count(count: int, *, every: bool) -> int:
    """How many are to be taken at most, by the two options that say so."""
    if count < 1:
        raise BadOption("--count", count, "1 or more")
    return sys.maxsize if every else count


def check_wait(wait: float) -> None:
    """Refuses a wait that no clock counts."""
    if not 0 <= wait <= 86_400:
        raise BadOption("--wait", wait, "0 to 86400 seconds")


def take(
    get: Callable[[int], Held],
    write: Callable[[Held], None],
    give_back: Callable[[Held], object],
    count: int,
    *,
    keep: bool,
    told: Callable[[int], None],
) -> None:
    """Takes up to so many, until none comes, and writes them; `Empty` when there was not one.

    What is not to be kept, or could not be written, is given back in the end.
    """
    taken, held = 0, list[Held]()
    try:
        while taken < count:
            try:
                found = get(min(count - taken, ITEMS_AT_ONCE))
            except Empty:
                if not taken:
                    raise
                break
            held.append(found)
            write(found)
            taken += len(found.batch)
            if keep:
                held.pop().ack()
            told(taken)
    finally:
        for found in held:
            give_back(found)


def to_stdout(lines: bool) -> Callable[[GotItems], None]:
    """Bodies one after the other, each with a newline after it when they are lines."""

    def write(found: GotItems) -> None:
        if lines:
            sys.stdout.buffer.writelines(as_seen(body) + b"\n" for body in found.batch)
        else:
            sys.stdout.buffer.write(as_seen(found.batch.trimmed().blob))
        sys.stdout.buffer.flush()

    return write


def as_seen(body: Buffer) -> bytes:
    """As it is; on a terminal without what that would obey."""
    if not sys.stdout.isatty():
        return bytes(body)
    return printable(bytes(body).decode(errors="backslashreplace")).encode()


def folder_for(out: Path) -> Path:
    """The folder, made when it is missing."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption("--out", str(out), f"a folder ({error.strerror})") from error
    return out


def unwritable(file: Path, error: OSError) -> BadOption:
    """The error for a file that could not be written."""
    return BadOption("--out", str(file), f"a place to write ({error.strerror})")


def _to_files(folder: Path) -> Callable[[Items], None]:
    def write(items: Items) -> None:
        for item in items:
            file = folder / _file_name(item.priority, item.position)
            try:
                file.write_bytes(item.body)
            except OSError as error:
                raise unwritable(file, error) from error

    return write


def _file_name(priority: float, position: int) -> str:
    """Of an item: its position, and before it its priority if that is not 0.

    >>> _file_name(0, 7), _file_name(2, 7), _file_name(-2.5, 7)
    ('000000000007', '2-000000000007', 'minus2.5-000000000007')
    """
    sign = "minus" if priority < 0 else ""  # no word of a command begins with a dash
    return f"{sign}{abs(priority)}-{position:012}" if priority else f"{position:012}"
