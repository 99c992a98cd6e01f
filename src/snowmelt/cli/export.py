"""`snowmelt export`: items of queues as JSON lines or as Arrow, from a cluster or without one."""

import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from snowmelt.cli.backup import ENDING, bar
from snowmelt.cli.options import HERE, PlaceOptions
from snowmelt.client.backup.file import damaged, looked_at, opened, pieces_of
from snowmelt.client.backup.rows import Row, Rows
from snowmelt.core.errors import BadOption, DiskFull, StoreError
from snowmelt.core.record import UNREADABLE
from snowmelt.core.shown import json_line
from snowmelt.store.folder import new_private

FORMATS: Final = ("json", "arrow")
AT_ONCE: Final = 5_000
"""Rows in one batch of Arrow, or so many bytes of bodies."""
BATCH_BYTES: Final = 16 << 20
SECOND: Final = 10**9


def export(
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Queues, or backups by their files (NAME{ENDING}); all queues if none."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="A new file, in place of standard output.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="json (a line each) or arrow.")] = "json",
    at: PlaceOptions = HERE,
) -> None:
    """Write out items, and take none. As a backup has them: ready, delayed, leased and dead."""
    if form not in FORMATS:
        raise BadOption("--format", form, ", ".join(FORMATS))
    if form == "arrow" and find_spec("pyarrow") is None:
        raise BadOption("--format", form, "json, or arrow with pyarrow: pip install pyarrow")
    if to is not None and to.exists():
        raise BadOption("--to", str(to), "a file that is not there yet")
    if form == "arrow" and to is None and sys.stdout.isatty():
        raise BadOption("--format", form, "on a terminal only json; say --to FILE, or use a pipe")
    names = list(queues or ())
    files = [one for one in names if one.endswith(ENDING) and Path(one).is_file()]
    count = 0
    try:
        with ExitStack() as stack:
            rows = _rows(stack, names, files, at)
            file = sys.stdout.buffer if to is None else stack.enter_context(new_private(to))
            write = _arrow if form == "arrow" else _lines
            count = write(file, rows)
            file.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "standard output" if to is None else str(to)
        kind = DiskFull if error.errno == 28 else StoreError
        raise kind(f"{where} can't be written: {error.strerror}; it has a part") from None
    print(f"{count:,} items", file=sys.stderr)


def _rows(stack: ExitStack, names: list[str], files: list[str], at: PlaceOptions) -> Iterator[Row]:
    for name in files:
        path = Path(name)
        summary = looked_at(path)
        rows, file = Rows.of(summary.head), stack.enter_context(opened(path))
        for piece in pieces_of(file, name):
            try:
                yield from rows.add(piece)
            except UNREADABLE as error:
                raise damaged(f"{name}: piece {piece.number} does not read: {error}") from None
    others = [one for one in names if one not in files]
    if names and not others:
        return
    with at.open() as cluster:
        for name in others or cluster.queues(timeout=at.timeout):
            with bar(name) as progress:
                yield from cluster.export(name, timeout=at.timeout, progress=progress)


def _lines(file: BinaryIO, rows: Iterator[Row]) -> int:
    count = 0
    for row in rows:
        file.write(json_line(told(row)).encode() + b"\n")
        count += 1
    return count


def told(row: Row) -> dict[str, Any]:
    """One item as JSON has it: what is no text is base64, under a name that says so.

    >>> row = Row("q", 7, b"one", {"n": b"!"}, None, 1_500_000_000, None, None, 1, "why", False, 0)
    >>> told(row)["body"], told(row)["headers"], told(row)["put_at"]
    ('one', {'n': {'base64': 'IQ=='}}, '1970-01-01T00:00:01.500000+00:00')
    """
    found: dict[str, Any] = {"queue": row.queue, "position": row.position}
    if row.partition is not None:
        found["partition"] = row.partition
    if row.priority is not None:
        found["priority"] = row.priority
    found |= _text("body", row.body)
    if row.key is not None:
        found |= _text("key", row.key)
    if row.headers:
        found["headers"] = {
            name: value if isinstance(value, str) else {"base64": b64encode(value).decode()}
            for name, value in row.headers.items()
        }
    if row.put_at:
        found["put_at"] = _moment(row.put_at)
    if row.due:
        found["due"] = _moment(row.due)
    if row.failures:
        found |= {"failures": row.failures, "reason": row.reason, "dead": row.dead}
    return found


def _text(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode()}


def _moment(at: int) -> str:
    whole, rest = divmod(at, SECOND)
    moment = datetime.fromtimestamp(whole, UTC)
    return moment.replace(microsecond=rest // 1000).isoformat(timespec="microseconds")


def _arrow(file: BinaryIO, rows: Iterator[Row]) -> int:
    """A stream, a batch for so many items."""
    arrow = import_module("pyarrow")
    time = arrow.timestamp("ns", "UTC")
    schema = arrow.schema(
        [
            ("queue", arrow.string()), ("position", arrow.int64()), ("body", arrow.binary()),
            ("headers", arrow.map_(arrow.string(), arrow.binary())), ("key", arrow.binary()),
            ("put_at", time), ("priority", arrow.int64()),
            ("priority_float", arrow.float64()), ("partition", arrow.int32()),
            ("failures", arrow.int32()), ("reason", arrow.string()), ("dead", arrow.bool_()),
            ("due", time),
        ]
    )  # fmt: skip
    count = size = 0
    some: list[Row] = []
    with arrow.ipc.new_stream(file, schema) as stream:
        for row in rows:
            some.append(row)
            count += 1
            size += len(row.body)
            if len(some) == AT_ONCE or size > BATCH_BYTES:
                stream.write_batch(_batch(arrow, schema, some))
                some, size = [], 0
        if some:
            stream.write_batch(_batch(arrow, schema, some))
    return count


def _batch(arrow: Any, schema: Any, some: list[Row]) -> Any:
    names = [field.name for field in schema if field.name != "priority_float"]
    columns = {name: [getattr(row, name) for row in some] for name in names}
    floats = [one if isinstance(one, float) else None for one in columns["priority"]]
    columns["priority_float"] = floats
    columns["priority"] = [None if isinstance(one, float) else one for one in columns["priority"]]
    columns["headers"] = [
        [(name, value.encode() if isinstance(value, str) else value) for name, value in one.items()]
        for one in columns["headers"]
    ]
    for name in ("put_at", "due"):
        columns[name] = [one or None for one in columns[name]]
    return arrow.RecordBatch.from_pydict(columns, schema=schema)
