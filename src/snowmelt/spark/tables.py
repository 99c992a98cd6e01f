"""Tables of SQL: `CREATE TABLE jobs USING snowmelt OPTIONS (url '…', queue 'jobs')`.

Spark tells a table's options to its source when the table is made, and not when it is read or
written. But it keeps the columns that the source gave the table, and hands them over each time,
with what the source wrote beside them. So the options travel there; but for the token, since
anybody may see the description of a table.

What stands beside a column goes along with it into any other frame, and so into any sink. So a sink
must know whether the columns it is given are of the table that it writes, or of rows that come from
one. Spark casts what is written into a table to the table's columns, and takes off them that one is
a `varchar`, which it leaves on a column that is read. So one of each table's columns is. Only where
all of the rows' columns are just the table's does Spark cast nothing: then nobody knows which table
it is, and the write is refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import StructField, StructType

from snowmelt.core.errors import BadOption
from snowmelt.spark.options import of_sink

_BESIDE: Final = "snowmelt.table"
_READ: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's word for what a `varchar` is: only a column that is read has it."""
_MARK: Final = "varchar(100)"
"""As long as the name of a queue may be."""
_MARKED: Final = "queue"
_LAST_OF_ALL: Final = "position"
"""A column that no sink takes: who has it has all of a table's, and not a choice of them."""
_MADE: Final = "provider"
"""Only a table that is being made has it: by which source."""
_RESERVED: Final = frozenset(
    {_MADE, "owner", "location", "comment", "external", "is_managed_location", "collation"}
)
_OPTION: Final = "option."
_UNTOLD: Final = frozenset({"token"})
_READ_ONLY: Final = frozenset({"position", "timestamp", "failures"})


def is_made(options: Mapping[str, str]) -> bool:
    """Whether these are what a table is made with."""
    return _MADE in options


def told(options: Mapping[str, str]) -> dict[str, str]:
    """What a person said of a table, without what Spark adds."""
    said = {name.lower(): value for name, value in options.items()}
    if _UNTOLD & said.keys():
        allowed = "none in a table, which shows it to all; set SNOWMELT_TOKEN where Spark runs"
        raise BadOption("token", "given", allowed)
    own = {name: value for name, value in said.items() if name not in _RESERVED}
    return {name: value for name, value in own.items() if not name.startswith(_OPTION)}


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The columns of a table, with its options beside each."""
    beside: dict[str, Any] = {_BESIDE: dict(options)}
    marked = {**beside, _READ: _MARK}
    return StructType(
        [
            StructField(one.name, one.dataType, True, marked if one.name == _MARKED else beside)
            for one in schema
        ]
    )


def read_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a source; a table's columns carry them, where none say where the cluster is.

    More of them may be given for one reading; those go first.
    """
    carried = {} if _has_url(options) else _carried(schema)
    if not carried and not _has_url(options):
        allowed = (
            "where the cluster is; Spark loses the OPTIONS of a table whose columns are named: "
            "make it without, or a TEMPORARY VIEW with them"
        )
        raise BadOption("url", None, allowed)
    return _over(carried, options)


def written_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a sink, and those that are known to be of the table that is written."""
    carried = of_sink(_carried(schema)) if is_written(schema) else {}
    if not carried and not _has_url(options):
        allowed = (
            "where the cluster is; Spark does not say into which table a stream (toTable), CREATE "
            "TABLE AS, or all columns of another such table go: give such a writer options of its "
            "own; name columns: INSERT INTO there (value) SELECT value FROM here"
        )
        raise BadOption("url", None, allowed)
    return _over(carried, options)


def is_written(schema: StructType) -> bool:
    """Whether these are columns of a table, as what is written into it has them."""
    return bool(_carried(schema)) and not any(_READ in field.metadata for field in schema.fields)


def _carried(schema: StructType) -> dict[str, str]:
    """What a table's columns carry; nothing where not all of them are there, of one table."""
    beside = [field.metadata.get(_BESIDE) for field in schema.fields]
    if _LAST_OF_ALL not in schema.names or beside.count(beside[0]) < len(beside):
        return {}
    return dict(beside[0] or {})


def _has_url(options: Mapping[str, str]) -> bool:
    return "url" in {name.lower() for name in options}


def _over(carried: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower() for name in options}
    return {k: v for k, v in carried.items() if k.lower() not in given} | dict(options)


def without_read_only(schema: StructType) -> StructType:
    """What of a table's columns can be written: an `INSERT` has nulls for the others."""
    if not is_written(schema):
        return schema
    return StructType([field for field in schema.fields if field.name not in _READ_ONLY])
