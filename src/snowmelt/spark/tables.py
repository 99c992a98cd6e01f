"""Tables of SQL: `CREATE TABLE jobs USING snowmelt OPTIONS (url '…', queue 'jobs')`.

Spark tells a table's options to its source when the table is made, and to nobody when it is read or
written. But it keeps the columns that the source gave the table, and hands them over each time,
with what the source wrote beside them. So the options travel there; but for the token, since what
describes a table is shown to whoever asks.
"""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import StructField, StructType

from snowmelt.core.errors import BadOption

_BESIDE: Final = "snowmelt"
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
    return StructType([StructField(one.name, one.dataType, True, beside) for one in schema])


def options_of(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options given, and those that a table's columns carry; the former go first."""
    for field in schema.fields:
        if _BESIDE in field.metadata:
            given = {name.lower() for name in options}
            carried: dict[str, str] = field.metadata[_BESIDE]
            return {k: v for k, v in carried.items() if k.lower() not in given} | dict(options)
    if not options:
        allowed = (
            "where the cluster is; Spark loses the OPTIONS of a table whose columns are named: "
            "make it without, or a TEMPORARY VIEW with them"
        )
        raise BadOption("url", None, allowed)
    return dict(options)


def without_read_only(schema: StructType) -> StructType:
    """What of a table's columns can be written: an `INSERT` has nulls for the others."""
    if not any(_BESIDE in field.metadata for field in schema.fields):
        return schema
    return StructType([field for field in schema.fields if field.name not in _READ_ONLY])
