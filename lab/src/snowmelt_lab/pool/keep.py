"""Where a sweep's rows are kept: Parquet files in a folder, one for each wave of runs."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from snowmelt.core.errors import BadOption, CallerError
from snowmelt_lab.output import write_csv
from snowmelt_lab.pool.measures import Measured
from snowmelt_lab.pool.models import Modelled
from snowmelt_lab.pool.options import PoolOptions
from snowmelt_lab.pool.runs import Row

FOLDER: Final = "runs"
TYPES: Final = {int: pa.int64(), float: pa.float64(), float | None: pa.float64(), bool: pa.bool_()}
BY_NAME: Final = pa.map_(pa.string(), pa.float64())


RENAMED: Final = {"objects": "objects_most"}


def _columns() -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(PoolOptions):
        if field.name != "shares":  # they stand in `access`
            yield RENAMED.get(field.name, field.name), _type(field.type)
    yield from {"load": pa.float64(), "key": pa.string(), "version": pa.string()}.items()
    for field in msgspec.structs.fields(Measured):
        yield field.name, _type(field.type)
    for field in msgspec.structs.fields(Modelled):
        yield f"model_{field.name}", _type(field.type)


def _type(kind: Any) -> Any:
    if kind == dict[str, float]:
        return BY_NAME
    return TYPES.get(kind, pa.string())


SCHEMA: Final = pa.schema(list(_columns()))


class Keep:
    """The rows of one folder. What is written is there whole, or not at all."""

    def __init__(self, folder: Path) -> None:
        self._runs = folder / FOLDER
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            allowed = f"a folder that can be written ({error.strerror})"
            raise BadOption("--out", str(folder), allowed) from error

    def rows(self, version: str) -> dict[str, Row]:
        """All rows made by this version of the kernel and the models, by their keys."""
        found = (row for file in sorted(self._runs.glob("*.parquet")) for row in _read(file))
        return {row["key"]: row for row in found if row["version"] == version}

    def add(self, rows: Sequence[Row]) -> None:
        """Keeps the rows of a wave in a file that is named by what it holds."""
        named = "/".join(f"{row['version']}{row['key']}" for row in rows)
        name = sha256(named.encode()).hexdigest()[:24]
        part = self._runs / f".{name}.{os.getpid()}.part"  # another sweep may write the same
        table = pa.Table.from_pylist([_mapped(row) for row in rows], schema=SCHEMA)
        parquet.write_table(table, part)
        part.replace(self._runs / f"{name}.parquet")


def _mapped(row: Row) -> Row:
    return {
        name: list(value.items()) if isinstance(value, dict) else value
        for name, value in row.items()
    }


def _read(file: Path) -> list[Row]:
    try:
        table = parquet.read_table(file)
    except (OSError, pa.ArrowException) as error:
        text = f"{file} can't be read as Parquet: delete it, or take another --out ({error})"
        raise CallerError(text) from error
    if not table.schema.equals(SCHEMA):
        return []  # of another version
    by_name = [field.name for field in SCHEMA if field.type == BY_NAME]
    rows: list[Row] = table.to_pylist()
    for row in rows:
        row.update({name: None if row[name] is None else dict(row[name]) for name in by_name})
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """All columns as CSV; what is counted by name stands there as JSON."""
    write_csv(path, SCHEMA.names, ([_cell(row.get(name)) for name in SCHEMA.names] for row in rows))


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value
