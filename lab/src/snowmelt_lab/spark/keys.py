"""What a column is compared by, and how a key becomes the column's value again.

1. A *key* is a whole number, a float, a decimal or bytes. Spark compares it, Arrow brings and sorts
   it, and Python compares it, all in one order. It goes back into an expression of Spark's without
   a change, whatever the time zone or the encoding.
2. Whole numbers, dates, times and booleans are whole numbers: days, microseconds, 0 and 1. So longs
   beyond 2^53 are exact, and an hour that a clock has twice is two. Strings are their bytes in
   UTF-8, which is Spark's order of strings that have no collation.
3. -0.0 and 0.0 are equal. NaN is the greatest of all floats and equal to itself, as Spark has it;
   it is counted and never a key, since Python would not compare it.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # Spark's own word
from pyspark.sql import types as T  # noqa: N812

from snowmelt.core.errors import BadOption

Key = int | float | Decimal | bytes

DAY: Final = 86_400_000_000
ALLOWED: Final = (
    "a whole number, float, decimal, string without collation, binary, date, timestamp or boolean;"
    " Spark, Arrow and Python agree on the order of these alone: select by one made of it"
)


class KeyType(msgspec.Struct, frozen=True):
    """How one type of column is compared."""

    of: Callable[[Column], Column]
    """The key of a value."""
    literal: Callable[[Any], Column]
    """A key as an expression."""
    value: Callable[[Any], Any]
    """The value of a key, as `collect` gives it."""
    width: int | None = 8
    """Bytes of a key; None where they vary."""
    nan: bool = False
    """Whether there may be values that are no number."""


def _micros(column: Column) -> Column:
    """Since 1970, of a timestamp without zone, whatever the session's zone is."""
    seconds = F.date_part(F.lit("SECOND"), column).cast("decimal(8,6)")
    minutes = F.hour(column) * 60 + F.minute(column)
    micros = minutes.cast("long") * 60_000_000 + (seconds * 1_000_000).cast("long")
    return F.unix_date(column.cast("date")).cast("long") * DAY + micros


def _same(value: Any) -> Any:
    return value


def _whole(of: Callable[[Column], Column], value: Callable[[Any], Any] = _same) -> KeyType:
    return KeyType(
        lambda column: of(column).cast("long"), lambda key: F.lit(key).cast("long"), value
    )


def key_type(name: str, of: T.DataType) -> KeyType:
    """How a column of this type is compared; refused by name when it is not."""
    match of:
        case T.LongType() | T.IntegerType() | T.ShortType() | T.ByteType():
            return _whole(_same)
        case T.BooleanType():
            return _whole(lambda column: column.cast("int"), bool)
        case T.FloatType() | T.DoubleType():
            return KeyType(lambda column: column.cast("double"), F.lit, _same, nan=True)
        case T.DecimalType():
            return KeyType(_same, lambda key: F.lit(key).cast(of), _same, width=16)
        case T.DateType():
            return _whole(F.unix_date, of.fromInternal)
        case T.TimestampType():
            return _whole(F.unix_micros, of.fromInternal)
        case T.TimestampNTZType():
            return _whole(_micros, of.fromInternal)
        case T.BinaryType():
            return KeyType(_same, F.lit, _same, width=None)
        case T.StringType() if of.isUTF8BinaryCollation():
            return KeyType(
                lambda column: column.cast("binary"),
                F.lit,
                lambda key: key.decode("utf-8", "replace"),
                width=None,
            )
        case _:
            raise BadOption(f"type of column {name}", of.simpleString(), ALLOWED)
