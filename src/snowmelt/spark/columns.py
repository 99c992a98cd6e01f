"""The columns of a source and of a sink, and the schemas of a person held against them."""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from snowmelt.core.errors import BadOption
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings

HEADERS: Final[dict[str, DataType | None]] = {
    "false": None,
    "true": StringType(),
    "binary": BinaryType(),
}
"""What `includeHeaders` may say, and what the values of the column `headers` are then."""
COLUMNS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("queue", StringType()),
        StructField("position", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("failures", IntegerType()),
    ]
)
"""What a source gives when nothing else is said. All may be null to Spark, as Kafka's are."""

Kinds = dict[str, tuple[type[DataType], ...]]
"""Columns, and the types that each may have."""

_BYTES: Final = (BinaryType, StringType)
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_READABLE: Final[Kinds] = {
    "key": _BYTES,
    "value": _BYTES,
    "queue": (StringType,),
    "priority": (IntegerType, LongType, DoubleType),
    "position": (LongType,),
    "timestamp": (TimestampType,),
    "failures": (IntegerType,),
    "headers": (MapType,),
}
_WRITABLE: Final[Kinds] = {
    "value": _BYTES,
    "key": _BYTES,
    "priority": (*_WHOLE, FloatType, DoubleType),
    "headers": (MapType,),
    "delay": (DoubleType, FloatType, *_WHOLE, DecimalType),
    "queue": (StringType,),
}
_MAYBE_NULL: Final = ("key", "timestamp", "headers")
_ARROW: Final[dict[type[DataType], pa.DataType]] = {
    BinaryType: pa.binary(),
    StringType: pa.string(),
    LongType: pa.int64(),
    IntegerType: pa.int32(),
    DoubleType: pa.float64(),
    TimestampType: pa.timestamp("us", "UTC"),
}


def priority_type(settings: QueueSettings) -> DataType:
    """Of the column that has a queue's priorities.

    >>> [priority_type(QueueSettings(priorities=one)) for one in (ANY, 4)]
    [LongType(), IntegerType()]
    """
    if settings.priorities == ANY:
        return DoubleType() if settings.floats else LongType()
    return IntegerType()


def check_priority(field: StructField, queue: str, settings: QueueSettings) -> None:
    """Raises when a column can't hold a queue's priorities.

    >>> any_number = QueueSettings(priorities=ANY)
    >>> check_priority(StructField("priority", IntegerType()), "jobs", any_number)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: schema has 'priority int'; allowed: priority as bigint, as...
    """
    own = priority_type(settings)
    if field.dataType != own and own != IntegerType():  # anything holds these
        told = f"priority {field.dataType.simpleString()}"
        raise _misfit(told, f"priority as {own.simpleString()}, as {queue} has them")


def source_schema(headers: str, *, priority: DataType | None = None) -> StructType:
    """What a source gives, with headers as `HEADERS` has them; of a priority queue with priorities.

    A priority queue has no keys.

    >>> source_schema("binary")["headers"].dataType.simpleString()
    'map<string,binary>'
    """
    fields = list(COLUMNS.fields)
    if priority is not None:
        fields = [*fields[1:3], StructField("priority", priority), *fields[3:]]
    values = HEADERS[headers]
    if values is not None:
        fields.append(StructField("headers", MapType(StringType(), values)))
    return StructType(fields)


def readable(schema: StructType, *, urgent: bool = False) -> pa.Schema:
    """The same columns in Arrow's words; raises for what a source has not.

    >>> from pyspark.sql.types import StructType
    >>> readable(StructType().add("value", "string"))
    value: string
    >>> readable(StructType().add("offset", "long"))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: schema has 'offset'; allowed: some of key, value, queue, ...
    """
    allowed = _of(_READABLE, urgent=urgent)
    if not schema.fields:
        raise _misfit("no column", f"some of {', '.join(allowed)}")
    for field in schema.fields:
        _check(field, allowed)
        if not field.nullable and field.name in _MAYBE_NULL:
            raise _misfit(f"{field.name} not null", f"{field.name}, which is null for some items")
    return pa.schema([_arrow(field) for field in schema.fields])


def check_writable(schema: StructType, queue: str, *, urgent: bool = False) -> None:
    """Raises for columns that a sink has no use for, or can't do without.

    >>> from pyspark.sql.types import StructType
    >>> check_writable(StructType().add("value", "long"), "raw")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: schema has 'value bigint'; allowed: value as binary or string
    """
    for field in schema.fields:
        if field.name == "priority" and not urgent:
            allowed = "none in a fifo, which keeps the order of puts; drop it, or say kind=priority"
            raise _misfit("priority", allowed)
        if field.name == "key" and urgent:
            raise _misfit("key", "none in a priority queue; put it into the headers, or drop it")
        _check(field, _of(_WRITABLE, urgent=urgent))
    if "value" not in schema.names:
        raise _misfit(", ".join(schema.names), "a column `value`, the body, binary or string")
    if not queue and "queue" not in schema.names:
        raise BadOption("queue", None, "the name of a queue, or a column `queue` that names one")


def _of(columns: Kinds, *, urgent: bool) -> Kinds:
    """Those of a fifo, or of a priority queue, which has priorities and no keys."""
    others = "key" if urgent else "priority"
    return {name: kinds for name, kinds in columns.items() if name != others}


def _check(field: StructField, allowed: Kinds) -> None:
    kinds = allowed.get(field.name)
    if kinds is None:
        raise _misfit(field.name, f"some of {', '.join(allowed)}")
    named = not isinstance(field.dataType, MapType) or (
        isinstance(field.dataType.keyType, StringType)
        and isinstance(field.dataType.valueType, StringType | BinaryType)
    )
    if not isinstance(field.dataType, kinds) or not named:
        words = [_said(kind) for kind in kinds]
        told = f"{field.name} {field.dataType.simpleString()}"
        raise _misfit(told, f"{field.name} as {' or '.join(words)}")


def _said(kind: type[DataType]) -> str:
    return (
        "map<string,string|binary>" if kind is MapType else kind().simpleString().partition("(")[0]
    )


def _misfit(has: str, allowed: str) -> BadOption:
    error = BadOption("schema", has, allowed)
    error.args = (f"schema has {has!r}; allowed: {allowed}",)
    return error


def _arrow(field: StructField) -> pa.Field:
    if isinstance(field.dataType, MapType):
        values = _ARROW[type(field.dataType.valueType)]
        value = pa.field("value", values, nullable=field.dataType.valueContainsNull)
        return pa.field(field.name, pa.map_(pa.string(), value), nullable=field.nullable)
    return pa.field(field.name, _ARROW[type(field.dataType)], nullable=field.nullable)
