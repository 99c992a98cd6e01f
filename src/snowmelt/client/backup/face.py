# Made of face_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""Backups and restores; blocking."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Final

import msgspec

from snowmelt.client.backup.file import (
    VERSION,
    End,
    Head,
    Writing,
    file_at,
    looked_at,
    opened,
    pieces_of,
)
from snowmelt.client.backup.rows import Row, Rows
from snowmelt.client.backup.steps import Begun, Making, Reading
from snowmelt.client.connection.steps import Port, run
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.names import queue_name

TRIES: Final = 5
"""So often a backup is begun anew since the leader changed."""
Progress = Callable[[int, int], None]
"""Told how many items of how many are done with."""


class Backup(msgspec.Struct, frozen=True):
    """A backup of a queue, or a queue that was made of one."""

    queue: str
    items: int
    bytes: int
    lost: int
    """So many items could not be read from any copy, and are not in it."""
    made: float
    """When it was begun (seconds since 1970)."""


def back_up(
    port: Port,
    name: str,
    path: str | PathLike[str],
    timeout: float,
    progress: Progress | None,
) -> Backup:
    """Into a new file, which is there when it is whole."""
    reading, tries, place = Reading(queue_name(name)), TRIES, file_at(path)
    while True:
        tries -= 1
        try:
            return _written(port, reading, place, timeout, progress)
        except Begun:
            if not tries:
                raise
        finally:
            with suppress(SnowmeltError):  # it ends by itself, too
                run(port, reading.end(timeout))


def _written(
    port: Port, reading: Reading, place: Path, timeout: float, progress: Progress | None
) -> Backup:
    made, done = time.time_ns(), 0
    parts = run(port, reading.begin(timeout))
    head = Head(VERSION, reading.name, made, reading.backup, reading.settings, parts)
    writing = Writing(place, head)
    try:
        while (read := run(port, reading.piece(timeout))) is not None:
            writing.add(read.piece, read.items, read.lost)
            done += read.items
            if progress is not None:
                progress(done, max(done, reading.items))
        return _told(head, reading.name, writing.finish())
    finally:
        writing.give_up()


def export(port: Port, name: str, timeout: float, progress: Progress | None) -> Iterator[Row]:
    """The items that a backup has."""
    reading = Reading(queue_name(name))
    try:
        parts = run(port, reading.begin(timeout))
        rows, done = Rows(name, reading.settings, parts), 0
        while (read := run(port, reading.piece(timeout))) is not None:
            for row in rows.add(read.piece):
                yield row
                done += 1
            if progress is not None:
                progress(done, max(done, reading.items))
    finally:
        with suppress(SnowmeltError):
            run(port, reading.end(timeout))


def restore(
    port: Port,
    path: str | PathLike[str],
    name: str | None,
    replicas: int | None,
    timeout: float,
    progress: Progress | None,
) -> Backup:
    """Of a file that is whole; looked at before anything is made."""
    place = file_at(path)
    summary = looked_at(place)
    queue = queue_name(summary.head.queue if name is None else name)
    making = Making(summary.head, queue, replicas)
    run(port, making.begin(timeout))
    done = 0
    with opened(place) as file:
        pieces = pieces_of(file, str(place))
        while (piece := next(pieces, None)) is not None:
            run(port, making.piece(piece, timeout))
            done += sum([lot.stop - lot.start for lot in piece.lots])
            if progress is not None:
                progress(min(done, summary.end.items), summary.end.items)
    run(port, making.finish(timeout))
    return _told(summary.head, queue, summary.end)


def _told(head: Head, name: str, end: End) -> Backup:
    return Backup(name, end.items, end.bytes, end.lost, head.made / 10**9)
