"""`snowmelt pool`: pools from a shell: their members, and what their producers have.

A process that puts is a producer. It keeps the objects itself, so it stays until they were taken,
or its time is over. Nothing that was got is acknowledged before it was written.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from snowmelt.cli.commands import Commands
from snowmelt.cli.get import check_wait, checked_count, folder_for, take, to_stdout, unwritable
from snowmelt.cli.local import end_on_sigterm
from snowmelt.cli.options import CLUSTER, AsJson, ClusterOptions
from snowmelt.cli.queue import source
from snowmelt.cli.tables import listing
from snowmelt.client.cluster import Cluster
from snowmelt.client.connection.steps import run
from snowmelt.client.pool.face import Pool
from snowmelt.client.pool.objects import Objects
from snowmelt.client.pool.options import PoolOptions
from snowmelt.client.pool.status import describe, pools
from snowmelt.core.errors import BadOption, DataLost, Full, StateError, Unreachable
from snowmelt.protocols.pool.introductions import PoolStatus

POOL = typer.Argument(help="The pool's name.")
LEAVING: Final = 1.0
"""How many seconds another producer has to take over what nobody took."""
LOOK_SECONDS: Final = 0.05
Show = Callable[[str], None]
pool = Commands(help="Pools: objects stay with their producers.", no_args_is_help=True)


def put(
    name: Annotated[str, POOL],
    bodies: Annotated[
        list[str] | None,
        typer.Argument(help="The objects; none, or -, reads standard input."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Put the content of this file.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Make each line an object.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait until all are taken.")] = 60.0,
    buffers: Annotated[int, typer.Option(help="Objects kept at once.")] = 1000,
    producer: Annotated[str, typer.Option(help="This producer's name; default: a new one.")] = "",
    spill: Annotated[
        Path | None, typer.Option(help="A folder that keeps the objects if this process dies.")
    ] = None,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Put objects and stay until they were taken. Ends with 4 when some were not."""
    check_wait(wait)
    if file is not None and bodies:
        raise BadOption("--file", str(file), "a file or bodies, not both")
    if lines and bodies and bodies != ["-"]:
        raise BadOption("--lines", bodies[0], "with --file or standard input only")
    end_on_sigterm()
    console = Console(stderr=True)
    with reached(at) as cluster, console.status("joining …") as status:
        options = PoolOptions(buffers=buffers)
        if producer:
            options["producer"] = producer
        if spill:
            options["spill"] = spill
        pool = cluster.pool(name, **options)
        try:
            with _read(bodies, file, lines=lines) as objects:
                taken = _Keeping(pool, status.update, wait).through(objects)
        finally:
            left = _leave(pool, spills=spill is not None)
    if left:
        raise StateError(_untaken(name, taken, left, wait, spill))
    print(f"{taken:,} {_objects(taken)} of {name} taken")


class _Keeping:
    """Stays with a pool for so long, and shows how far its consumers are."""

    def __init__(self, pool: Pool, show: Show, wait: float) -> None:
        self._pool = pool
        self._show = show
        self._end = monotonic() + wait

    def through(self, objects: Iterable[bytes]) -> int:
        """Puts all, and waits until all were taken or the time is over; how many were taken."""
        for body in objects:
            self._put(body)
        while self._left() and monotonic() < self._end:
            sleep(LOOK_SECONDS)
        return self._pool.stats().settled

    def _put(self, body: bytes) -> None:
        """Waits for room as long as there is time, and shows meanwhile how it stands."""
        while True:
            try:
                return self._pool.put(body, timeout=min(1.0, max(0.0, self._end - monotonic())))
            except Full:
                told = self._left()
                if monotonic() >= self._end:
                    sentence = f"all {told} buffers are full, and not all objects could be put"
                    raise Full(f"{sentence}; --buffers N gives more room") from None

    def _left(self) -> int:
        told = self._pool.stats()
        left = told.stock + told.on_loan
        self._show(f"{told.settled:,} taken, {told.on_loan:,} being taken, {told.stock:,} wait …")
        return left


def get(
    name: Annotated[str, POOL],
    count: Annotated[int, typer.Option("-n", "--count", help="How many at most.")] = 1,
    every: Annotated[bool, typer.Option("--all", help="All there are; -n is ignored.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the next object.")] = 1.0,
    lines: Annotated[bool, typer.Option("--lines", help="End each body with a newline.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder; each object becomes a file, numbered.")
    ] = None,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Take objects and write their bodies as they are. Ends with 8 when there was none."""
    limit = checked_count(count, every=every)
    check_wait(wait)
    write = _to_files(folder_for(out)) if out else to_stdout(lines)
    console = Console(stderr=True, quiet=sys.stdout.isatty())  # where the bodies themselves show
    with (
        reached(at) as cluster,
        console.status("getting …") as status,
        cluster.pool(name) as pool,
    ):
        take(
            lambda most: pool.get_many(most, timeout=wait),
            write,
            Objects.nack,
            limit,
            keep=True,
            told=lambda count: status.update(f"{count:,} objects taken from {name} …"),
        )


@contextmanager
def reached(at: ClusterOptions) -> Iterator[Cluster]:
    """A cluster that answers; when none does, the error says how to start one."""
    with at.open() as cluster:
        try:
            cluster.ping(timeout=at.timeout)
        except Unreachable as error:
            way = "`snowmelt up` starts a cluster on this machine, --url names another"
            raise Unreachable(f"{error}; {way}") from None
        yield cluster


@contextmanager
def _read(bodies: list[str] | None, file: Path | None, *, lines: bool) -> Iterator[Iterable[bytes]]:
    """The objects asked for, one after the other."""
    if bodies and bodies != ["-"]:
        yield [os.fsencode(body) for body in bodies]
        return
    with source(file) as stream:
        yield (line.removesuffix(b"\n") for line in stream) if lines else [stream.read()]


def _leave(pool: Pool, *, spills: bool) -> int:
    """Leaves in order, even when asked again to end; how many objects nobody took over."""
    told = pool.stats()
    left = told.stock + told.on_loan
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pool.close(timeout=LEAVING)
    except DataLost:
        return left
    return left if spills else 0


def _untaken(name: str, taken: int, left: int, wait: float, spill: Path | None) -> str:
    fate = f"still in {spill}, for the next put with that --spill" if spill else "lost"
    text = f"{left:,} {_objects(left)} of {name} were not taken in {wait:g} s"
    return f"{text} ({taken:,} taken); what was left is {fate}"


def _objects(count: int) -> str:
    return "object" if count == 1 else "objects"


def _to_files(folder: Path) -> Callable[[Objects], None]:
    """Files numbered from 1, in the order of their coming; none that is there is written over."""
    number = 1

    def write(objects: Objects) -> None:
        nonlocal number
        for body in objects.batch:
            while (folder / f"{number:012}").exists():
                number += 1
            file = folder / f"{number:012}"
            try:
                with file.open("xb") as stream:
                    stream.write(body)
            except OSError as error:
                raise unwritable(file, error) from error

    return write


@pool.command(name="list")
def list_(as_json: AsJson = False, at: ClusterOptions = CLUSTER) -> None:
    """List the pools that somebody is in."""
    with at.clients() as port:
        found = run(port, pools(at.timeout))
    if as_json:
        print(json.dumps({"pools": [pool_object(one) for one in found]}))
    elif found:
        Console().print(pools_table(found))
    else:
        print("no pool has members")


@pool.command()
def stats(
    name: Annotated[str, POOL],
    as_json: AsJson = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Show a pool's members: what each producer has and makes, and how many consume."""
    with at.clients() as port:
        status = run(port, describe(name, at.timeout))
    if as_json:
        print(json.dumps(pool_object(status)))
    elif status.producers or status.consumers:
        Console().print(pool_table(status))
    else:
        print(f"{name} has no members")


def pool_object(status: PoolStatus) -> dict[str, object]:
    """A pool as one JSON object, its fields by name."""
    return {
        "pool": status.name,
        "producers": [
            msgspec.structs.asdict(one) | {"address": str(one.address), "stock": stock}
            for one, stock in zip(status.producers, status.stocks, strict=True)
        ],
        "consumers": list(status.consumers),
        "stock": sum(status.stocks),
    }


def pools_table(found: list[PoolStatus]) -> Table:
    """Shows the pools, one row a pool."""
    table = listing(("pool", "producers", "consumers", "stock", "objects/s"), words=("pool",))
    for one in found:
        counts = (len(one.producers), len(one.consumers), sum(one.stocks))
        rate = sum(producer.rate for producer in one.producers)
        table.add_row(one.name, *(f"{count:,}" for count in counts), rate_text(rate))
    return table


def pool_table(status: PoolStatus) -> Table:
    """A row for each producer; the title counts the consumers."""
    makers, eaters = len(status.producers), len(status.consumers)
    title = f"{status.name} has {_counted(makers, 'producer')} and {_counted(eaters, 'consumer')}"
    heads = ("producer", "address", "stock", "objects/s", "")
    table = listing(heads, words=("producer", "address", ""), title=title)
    for one, stock in zip(status.producers, status.stocks, strict=True):
        state = "leaving" if one.leaving else ""
        table.add_row(one.name, str(one.address), f"{stock:,}", rate_text(one.rate), state)
    return table


def rate_text(rate: float) -> str:
    """How many objects a second, as a person reads it; one that is hardly known yet is none.

    >>> rate_text(1234.5), rate_text(0.25), rate_text(0.0001), rate_text(0)
    ('1,234', '0.25', '-', '-')
    """
    if rate < 0.001:
        return "-"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


for command in (put, get):
    pool.command()(command)
