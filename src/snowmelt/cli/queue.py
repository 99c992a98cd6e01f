"""`snowmelt put`, `peek`, `stats`, `purge`, `delete`, `redrive`: queues from a shell.

Bodies are bytes, and what is piped in or out stays as it is. How items are taken out is in
`get.py`.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, cast

import msgspec
import typer
from rich.console import Console

from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.cli.queue_show import (
    items_in,
    peek_lines,
    queue_object,
    queue_table,
    queue_title,
    seen_object,
    so_many,
)
from snowmelt.cli.schedules import ONCE, ScheduleFlags
from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.queue.item_words import whereabouts
from snowmelt.client.queue.options import PriorityOptions, QueueOptions
from snowmelt.core.errors import BadOption, CallerError
from snowmelt.protocols.queue.api.calls import QueueStatus
from snowmelt.protocols.queue.api.settings import ANY
from snowmelt.protocols.queue.api.statuses import ItemStanding

PRIORITY: Final = typer.Option(
    help="Of each item. A new queue becomes a priority queue.", metavar="NUMBER"
)
PRIORITIES: Final = typer.Option(
    help="Which priorities a new queue takes: int, float, or how many from 0.",
    metavar="KIND",
)
PARTITIONS: Final = typer.Option(
    help="How many partitions a new queue has, each with its own leader.", metavar="NUMBER"
)
LARGEST_FIRST: Final = typer.Option(
    "--largest-first/--least-first", help="Which priority a new queue gives out first."
)
_REACH: Final = {"first": 0.0, "median": 0.5, "last": 1.0}
LINES_AT_ONCE = 10_000


class PriorityFlags(msgspec.Struct, frozen=True):
    """The flags of a command that are about priorities."""

    priority: int | float | None
    options: PriorityOptions


def urgency(
    priority: str | None, priorities: str | None, largest_first: bool | None
) -> PriorityFlags:
    """The flags, read and checked.

    >>> urgency("-5", "float", None)
    PriorityFlags(priority=-5, options={'priorities': <class 'float'>})
    >>> urgency("soon", None, None)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --priority is 'soon'; allowed: a number, such as -5 or 2.5
    """
    options = PriorityOptions()
    if priorities is not None:
        options["priorities"] = _kind(priorities)
    if largest_first is not None:
        options["largest_first"] = largest_first
    return PriorityFlags(None if priority is None else _number(priority), options)


def _number(word: str) -> int | float:
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    raise BadOption("--priority", word, "a number, such as -5 or 2.5")


def _kind(word: str) -> int | type[int] | type[float]:
    named: dict[str, type[int] | type[float]] = {"int": int, "float": float}
    if word in named:
        return named[word]
    try:
        return int(word)
    except ValueError:
        allowed = "int, float, or a number of priorities"
        raise BadOption("--priorities", word, allowed) from None


def into(
    cluster: Cluster | EmbeddedCluster,
    name: str,
    said: PriorityFlags,
    timeout: float,
    partitions: int | None = None,
) -> tuple[Fifo | PriorityQueue, dict[str, Any]]:
    """The queue of this name, and the priority with which to put; of a fifo none.

    Whatever is said of priorities, it is a priority queue then.
    """
    more, all_said = QueueOptions(), cast("PriorityOptions", dict(said.options))
    if partitions is not None:
        more["partitions"] = all_said["partitions"] = partitions
    found, ranked = cluster.queue(name, timeout=timeout), {"priority": said.priority or 0}
    if isinstance(found, PriorityQueue):
        return cluster.priority(name, **all_said) if all_said else found, ranked
    if said.priority is None and not said.options:
        return cluster.fifo(name, **more) if more else found, {}
    if name in cluster.queues(timeout=timeout):
        given = {"priority": said.priority, **said.options}
        option, value = next(one for one in given.items() if one[1] is not None)
        word = value.__name__ if isinstance(value, type) else value
        raise BadOption(f"--{option.replace('_', '-')}", word, f"none: {name} is a fifo")
    return cluster.priority(name, **all_said), ranked


def reach_of(
    queue: Fifo | PriorityQueue, status: QueueStatus, timeout: float
) -> dict[str, int | float]:
    """The first, the middle and the last priority that is ready, where any number is one.

    There may be as many as items, so these are shown in the place of all.
    """
    if isinstance(queue, Fifo) or not status.ready:
        return {}
    if status.settings.priorities != ANY:
        return {}
    seen = {word: queue.quantile(share, timeout=timeout) for word, share in _REACH.items()}
    return {word: one.priority for word, one in seen.items() if one is not None}


def put(
    queue: QueueName,
    bodies: Annotated[
        list[str] | None, typer.Argument(help="The items; none, or -, reads standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Put the content of this file.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Make each line an item.")] = False,
    header: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, for each item; repeat for more.")
    ] = None,
    delay: Annotated[float, typer.Option(help="Seconds until it may be delivered.")] = 0.0,
    key: Annotated[
        str | None, typer.Option(help="For whom each item is, such as a tenant.")
    ] = None,
    priority: Annotated[str | None, PRIORITY] = None,
    priorities: Annotated[str | None, PRIORITIES] = None,
    largest_first: Annotated[bool | None, LARGEST_FIRST] = None,
    partitions: Annotated[int | None, PARTITIONS] = None,
    again: ScheduleFlags = ONCE,
    at: PlaceOptions = HERE,
) -> None:
    """Put items: words, a file, or standard input. `--lines` makes each line an item.

    With `--every` the item is put by the cluster, again and again: `snowmelt schedules` shows when.
    """
    again.check(lines=lines)
    headers, said = read_headers(header or []), urgency(priority, priorities, largest_first)
    if file is not None and bodies:
        raise BadOption("--file", str(file), "a file or bodies, not both")
    with at.open() as cluster:
        target, ranked = into(cluster, queue, said, at.timeout, partitions)
        how = {"headers": headers, "delay": delay, "timeout": at.timeout, **ranked}
        if lines:
            if bodies and bodies != ["-"]:
                raise BadOption("--lines", bodies[0], "with --file or standard input only")
            with source(file) as stream:
                count = _put_lines(target, stream, {"key": key, **how})
            print(f"{so_many(count)} put into {queue}{_on_nodes(target, at.data)}")
            return
        put_now = _bodies(bodies, file)
        if again.every is not None:
            print(again.put(target, put_now, {"key": key, **how}))
            return
        where = target.put_many(put_now, key=key, **how)
    place = f" with priority {ranked['priority']}" if ranked else ""
    place += f" at {where[0]}"
    place += _on_nodes(target, at.data)
    print(f"{so_many(len(put_now))} put into {queue}{place}")


def _on_nodes(target: Fifo | PriorityQueue, data: Path | None) -> str:
    """How many copies there were when a put into a cluster was answered."""
    if data is not None or not target.copies:
        return ""
    return f", on {target.copies} nodes" if target.copies > 1 else ", on one node"


def read_headers(words: list[str]) -> dict[str, str]:
    """Headers as they are given to a command.

    >>> read_headers(["kind=page", "from="])
    {'kind': 'page', 'from': ''}
    """
    headers: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise BadOption("--header", word, "NAME=VALUE")
        headers[name] = value
    return headers


def source(file: Path | None) -> BinaryIO:
    """Where bodies are read from."""
    if file is None:
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise BadOption("--file", str(file), f"a readable file ({error.strerror})") from error


def _bodies(bodies: list[str] | None, file: Path | None) -> list[bytes]:
    if bodies and bodies != ["-"]:
        return [os.fsencode(body) for body in bodies]
    with source(file) as stream:
        return [stream.read()]


def _put_lines(into: Fifo | PriorityQueue, stream: BinaryIO, how: dict[str, Any]) -> int:
    """Puts every line without its end; a count on a terminal that nothing is piped to."""
    console = Console(stderr=True)
    count = 0
    with console.status("putting …") as status:
        for part in _parts(line.removesuffix(b"\n") for line in stream):
            into.put_many(part, **how)
            count += len(part)
            status.update(f"{count:,} items put into {into.name} …")
    return count


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(lines)
    while part := list(islice(rest, LINES_AT_ONCE)):
        yield part


def peek(
    queue: QueueName,
    count: Annotated[int, typer.Option("-n", "--count", help="How many at most.")] = 10,
    dead: Annotated[bool, typer.Option("--dead", help="The dead letters.")] = False,
    leased: Annotated[
        bool, typer.Option("--leased", help="What consumers have, the longest held first.")
    ] = False,
    delayed: Annotated[
        bool, typer.Option("--delayed", help="What is for later, the next due first.")
    ] = False,
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Show the first items and take none."""
    if dead + leased + delayed > 1:
        raise BadOption("--dead, --leased, --delayed", "several", "one of them")
    states = {ItemStanding.DEAD: dead, ItemStanding.LEASED: leased, ItemStanding.DELAYED: delayed}
    state = next((one for one, wanted in states.items() if wanted), ItemStanding.READY)
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        seen = found.peek(count, state=state, timeout=at.timeout)
    if as_json:
        print(json.dumps({"queue": queue, "items": [seen_object(one) for one in seen]}))
        return
    for line, one in zip(peek_lines(seen), seen, strict=True):
        print(f"{line}  {whereabouts(state, one)}" if leased or delayed else line)


def stats(queue: QueueName, as_json: AsJson = False, at: PlaceOptions = HERE) -> None:
    """Show how a queue is."""
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        told = found.stats(timeout=at.timeout)
        reach = reach_of(found, told, at.timeout)
    whose = {} if isinstance(cluster, EmbeddedCluster) else {"cluster": cluster.identity}
    if as_json:
        print(json.dumps(queue_object(told, reach) | whose))
    else:
        table = queue_table(told, reach)
        for name, identity in whose.items():
            table.add_row(name, identity)
        folder = at.data is not None
        print(queue_title(told, folder=folder))  # not in the table, which would wrap it
        Console().print(table)


def purge(
    queue: QueueName,
    dead: Annotated[bool, typer.Option("--dead", help="The dead letters.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    at: PlaceOptions = HERE,
) -> None:
    """Remove all items that wait, for ever. What is leased stays with its holder."""
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        if not yes:
            confirm(_question(found, dead, at.timeout))
        count = found.purge(dead=dead, timeout=at.timeout)
    print(f"{so_many(count)} removed from {queue}")


def delete(
    queue: QueueName,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Only if nothing is in it.")] = False,
    lost: Annotated[
        bool,
        typer.Option("--lost", help="Also if nodes are away, so that its content is unknown."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    at: PlaceOptions = HERE,
) -> None:
    """Delete a queue with all that is in it, for ever. Its name is free afterwards."""
    with at.open() as cluster:
        if not (yes or if_empty):
            what = "whatever is in it"
            if not lost:
                told = cluster.queue(queue, timeout=at.timeout).stats(timeout=at.timeout)
                what = items_in(told)
            confirm(f"Delete {queue} for ever, with {what}?")
        gone = cluster.delete(queue, if_empty=if_empty, lost=lost, timeout=at.timeout)
    what = items_in(gone) if gone.counted else "whatever its nodes have, which are away"
    print(f"{queue} is deleted, with {what}")


def _question(queue: Fifo | PriorityQueue, dead: bool, timeout: float) -> str:
    told = queue.stats(timeout=timeout)
    count = told.dead if dead else told.ready + told.delayed
    return f"Remove {so_many(count)} from {queue.name} for ever?"


def confirm(question: str) -> None:
    """Asks a person; ends the command when the answer is no, or nobody is there to give it."""
    if not sys.stdin.isatty():
        raise CallerError(f"{question} There is no terminal to answer on: add --yes to do it")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def redrive(
    queue: QueueName,
    rate: Annotated[int, typer.Option(help="Items a second at most; 0: all at once.")] = 0,
    at: PlaceOptions = HERE,
) -> None:
    """Bring dead items back to their positions."""
    if rate < 0:
        raise BadOption("--rate", rate, "0 or more")
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        count = found.redrive(per_second=rate, timeout=at.timeout)
    print(f"{so_many(count)} of {queue} {'comes' if count == 1 else 'come'} back")
