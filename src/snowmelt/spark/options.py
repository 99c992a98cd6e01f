"""What a person may say with `.option(...)`, read and checked: one place for source and for sink.

Spark hands options over as text under names in lower case. The names are Kafka's where they mean
the same, and Kafka's own words for a queue are taken as well.
"""

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from snowmelt.client.connection.url import read, with_user
from snowmelt.client.queue.group_steps import group_name
from snowmelt.client.queue.options import ProducerSequence, queue_settings, ranked_settings
from snowmelt.client.queue.staging_steps import HOLD
from snowmelt.core.errors import BadOption
from snowmelt.core.names import queue_name
from snowmelt.protocols.queue.api.settings import HOLD_LONGEST, TIMES

TIMEOUT: Final = 60.0
FIFO: Final = "fifo"
PRIORITY: Final = "priority"
_CONNECTION: Final = ("url", "user", "token", "timeout", "kind")
_SOURCE: Final = (
    *_CONNECTION,
    "queue",
    "queues",
    "queuePattern",
    "group",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "cores",
    "batchSeconds",
    "failOnDataLoss",
    "failOnOlderCheckpoint",
    "includeHeaders",
)
_SETTINGS: Final = {
    "replicas": "replicas",
    "durableCopies": "durable_copies",
    "flush": "flush",
    "lease": "lease",
    "maxDeliveries": "max_deliveries",
    "maxItems": "max_items",
    "maxBytes": "max_bytes",
    "inlineMax": "inline_max",
    "retention": "retention",
    "partitions": "partitions",
}
"""What a queue is made with, and what a queue calls it."""
_SINK: Final = (
    *_CONNECTION,
    "queue",
    "txnAppId",
    "txnVersion",
    "stagedFor",
    "failOnOtherContent",
    *_SETTINGS,
)
_ALIASES: Final = {
    "subscribe": "queues",
    "subscribePattern": "queuePattern",
    "maxOffsetsPerTrigger": "maxMessagesPerTrigger",
    "topic": "queue",
}
_BEGINNING: Final = "none: a new group begins with what waits"
_WAITING: Final = "none: the option `timeout` says for how long the cluster is waited for"
_GATHERING: Final = "none: a batch is what waits; trigger(processingTime=…) lets more gather"
_KAFKAS: Final = {
    "startingOffsets": f"{_BEGINNING}. Give each reader its own queue",
    "startingOffsetsByTimestamp": f"{_BEGINNING}, however old it is. Filter by column timestamp",
    "startingOffsetsByTimestampStrategy": f"{_BEGINNING}, however old it is",
    "startingTimestamp": f"{_BEGINNING}, however old it is. Filter by column timestamp",
    "endingOffsets": "none: a run of trigger(availableNow=True) ends with what waits at its start",
    "endingOffsetsByTimestamp": "none: filter by column timestamp",
    "endingTimestamp": "none: filter by column timestamp",
    "minOffsetsPerTrigger": _GATHERING,
    "maxTriggerDelay": _GATHERING,
    "maxRecordsPerPartition": "none: minPartitions says in how many tasks to read at least",
    "assign": "none: all partitions of a queue are read; name it by `queue` or `queues`",
    "groupIdPrefix": "none: the option `group` is the whole name",
    "fetchOffset.numRetries": _WAITING,
    "fetchOffset.retryIntervalMs": _WAITING,
    "kafkaConsumer.pollTimeoutMs": _WAITING,
    "includeHeaders": "none in a sink: it takes a column `headers` if there is one",
}
"""What Kafka's source has and a queue has not, and what to do instead."""
_SPARKS_OWN: Final = ("checkpointlocation", "queryname")
"""What Spark adds for itself."""


class ConnectionOptions(msgspec.Struct, frozen=True):
    """Where the cluster is, how to be let in, and for how long to wait for it."""

    url: str
    token: str | None
    timeout: float


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a source reads, and how much at a time; 0 for what has no limit."""

    connection: ConnectionOptions
    kind: str
    """`FIFO` or `PRIORITY`: what the queues are."""
    queues: tuple[str, ...]
    """The queues by name; none of them when they are found by a pattern."""
    pattern: str
    group: str
    rows_max: int
    bytes_max: int
    partitions_min: int
    cores: int
    """How many tasks are run at once."""
    batch_seconds: float
    """How long a micro-batch is to last."""
    fail_on_loss: bool
    fail_on_older: bool
    """Whether a batch that the checkpoint lost is refused, or planned again."""
    headers: str
    """A key of `columns.HEADERS`."""


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a sink puts, and under which name it publishes."""

    connection: ConnectionOptions
    kind: str
    """`FIFO` or `PRIORITY`: what the queues are."""
    queue: str
    """The queue for all rows; empty when the column `queue` names one for each."""
    producer: str
    """The name given as `txnAppId`; empty for none, or for the name of the query that writes."""
    version: int | None
    hold: float
    """For how many seconds staged rows wait to be published."""
    compared: bool
    """Whether what is published again must be the same as what was published before."""
    made: dict[str, Any]
    """What a queue that is not there is made with."""
    partitions: int = 1
    """How many the named queue has."""
    drawn: int = 0
    """Which of them a write without a number puts into."""


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """Reads the options of a source.

    >>> source_options({"url": "snowmelt://127.0.0.1:4410", "queues": "raw, late"}).queues
    ('late', 'raw')
    >>> source_options({"url": "snowmelt://127.0.0.1:4410", "quue": "raw"})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: option is 'quue'; allowed: queue, which is the nearest...
    """
    said = _known(given, _SOURCE)
    queues, pattern = _queues(said)
    if _kind(said) == PRIORITY and len(queues) != 1:
        found = pattern or ",".join(queues)
        raise BadOption("queue", found, "one queue with kind=priority; a stream for each")
    if _kind(said) == PRIORITY and "batchSeconds" in said:
        raise BadOption("batchSeconds", said["batchSeconds"], "none with kind=priority")
    return SourceOptions(
        connection=_connection(said),
        kind=_kind(said),
        queues=queues,
        pattern=pattern,
        group=group_name(said.get("group", "spark")),
        rows_max=_count(said, "maxMessagesPerTrigger"),
        bytes_max=_count(said, "maxBytesPerTrigger"),
        partitions_min=_count(said, "minPartitions"),
        cores=_count(said, "cores"),
        batch_seconds=_seconds(said, "batchSeconds", 0.0, 3600),
        fail_on_loss=_switch(said, "failOnDataLoss", "true"),
        fail_on_older=_switch(said, "failOnOlderCheckpoint", "true"),
        headers=_headers(said),
    )


def sink_options(given: Mapping[str, str], streaming: bool) -> SinkOptions:
    """Reads the options of a sink.

    >>> sink_options({"url": "snowmelt://127.0.0.1:4410", "txnAppId": "daily"}, streaming=False)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: txnVersion is None; allowed: a number with txnAppId: ...
    """
    said = _known(given, _SINK)
    producer, version = said.get("txnAppId", ""), said.get("txnVersion")
    if streaming and version is not None:
        allowed = "none for a stream, which numbers its batches itself"
        raise BadOption("txnVersion", version, allowed)
    if not streaming and producer and version is None:
        allowed = "a number with txnAppId: a write with the same two is done once"
        raise BadOption("txnVersion", None, allowed)
    return SinkOptions(
        connection=_connection(said),
        kind=_kind(said),
        queue=_named("queue", said["queue"]) if "queue" in said else "",
        producer=_producer(producer),
        version=None if version is None else _count(said, "txnVersion", 0),
        hold=_seconds(said, "stagedFor", HOLD, HOLD_LONGEST / 1e9),
        compared=_switch(said, "failOnOtherContent", "true"),
        made=_made(said),
    )


def of_sink(given: Mapping[str, str]) -> dict[str, str]:
    """Those of a table's options that a sink has as well.

    >>> of_sink({"url": "snowmelt://127.0.0.1:4410", "queue": "jobs", "group": "spark"})
    {'url': 'snowmelt://127.0.0.1:4410', 'queue': 'jobs'}
    """
    names = {name.lower() for name in (*_SINK, "topic")}
    return {name: value for name, value in given.items() if name.lower() in names}


def _known(given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The options under the names they have here; raises for one that nobody knows."""
    spelled = {name.lower(): name for name in names}
    aliases = {alias.lower(): name for alias, name in _ALIASES.items() if name in names}
    said: dict[str, str] = {}
    for key, value in given.items():
        written = key.lower()
        if written in _SPARKS_OWN:
            continue
        if written == "path":
            raise BadOption("path", value, "none: a queue is named by the option `queue`")
        name = spelled.get(written) or aliases.get(written)
        if name is None:
            raise _unknown(key, value, spelled)
        if name in said and said[name] != value:
            raise BadOption(name, value, f"one value; it is also given as {said[name]!r}")
        said[name] = value
    return said


def _unknown(key: str, value: str, spelled: Mapping[str, str]) -> BadOption:
    for name, allowed in _KAFKAS.items():
        if key.lower() == name.lower():
            return BadOption(name, value, allowed)
    if key.lower().startswith("kafka."):
        return BadOption(key, value, "none: the option `url` says where the cluster is")
    return BadOption("option", key, _nearest(key.lower(), spelled))


def _nearest(written: str, spelled: Mapping[str, str]) -> str:
    near = get_close_matches(written, spelled, 1, 0.5)
    every = ", ".join(spelled.values())
    return f"{spelled[near[0]]}, which is the nearest; all are {every}" if near else every


def _connection(said: Mapping[str, str]) -> ConnectionOptions:
    if not said.get("url"):
        raise BadOption("url", said.get("url"), "where the cluster is, as snowmelt://HOST:PORT")
    url, token = with_user(said["url"], said.get("user", "")), said.get("token")
    read(url, token)
    return ConnectionOptions(url, token, _seconds(said, "timeout", TIMEOUT, 86_400))


def _kind(said: Mapping[str, str]) -> str:
    kind = said.get("kind", FIFO).lower()
    if kind not in (FIFO, PRIORITY):
        raise BadOption("kind", said["kind"], f"{FIFO}, the default, or {PRIORITY}")
    return kind


def _made(said: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a queue that are said, as a queue takes them."""
    urgent = _kind(said) == PRIORITY
    made: dict[str, Any] = {}
    for option, name in _SETTINGS.items():
        if option in said:
            made[name] = _setting(option, name, said[option])
    try:
        _ = ranked_settings(**made) if urgent else queue_settings(**made)
    except BadOption as error:
        option = next(one for one, name in _SETTINGS.items() if name == error.option)
        raise BadOption(option, said.get(option), error.allowed) from None
    return made


def _setting(option: str, name: str, value: str) -> int | float | str:
    if name == "flush" and value == "always":
        return value
    if name not in TIMES:
        return _count({option: value}, option, 0)
    try:
        return float(value)
    except ValueError:
        raise BadOption(option, value, "a number of seconds") from None


def _queues(said: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The names, or the pattern: exactly one way of saying which queues are meant."""
    ways = [name for name in ("queue", "queues", "queuePattern") if name in said]
    if len(ways) != 1:
        found = " and ".join(ways) or None
        raise BadOption("queue", found, "one of the options queue, queues and queuePattern")
    way = ways[0]
    value = said[way]
    if way == "queue":
        return (_named(way, value),), ""
    if way == "queues":
        names = {_named(way, name.strip()): None for name in value.split(",")}
        return tuple(sorted(names)), ""
    try:
        re.compile(value)
    except re.error as error:
        raise BadOption(way, value, f"a regular expression; {error}") from None
    return (), value


def _named(option: str, value: str) -> str:
    try:
        return queue_name(value)
    except BadOption as error:
        raise BadOption(option, value, error.allowed) from None


def _producer(name: str) -> str:
    if name:
        try:
            ProducerSequence(name)
        except BadOption as error:
            raise BadOption("txnAppId", name, error.allowed) from None
    return name


def _count(said: Mapping[str, str], name: str, lowest: int = 1) -> int:
    """A whole number; 0 when it isn't given."""
    value = said.get(name)
    if value is None:
        return 0
    if re.fullmatch(r"\d{1,18}", value, re.ASCII) and int(value) >= lowest:
        return int(value)
    raise BadOption(name, value, f"a whole number, {lowest} or more")


def _switch(said: Mapping[str, str], name: str, default: str) -> bool:
    value = said.get(name, default)
    if value.lower() not in ("true", "false"):
        raise BadOption(name, value, "true or false")
    return value.lower() == "true"


def _headers(said: Mapping[str, str]) -> str:
    value = said.get("includeHeaders", "false")
    if value.lower() not in ("true", "false", "binary"):
        raise BadOption("includeHeaders", value, "true, false or binary")
    return value.lower()


def _seconds(said: Mapping[str, str], name: str, default: float, longest: float) -> float:
    value = said.get(name)
    if value is None:
        return default
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if 1 <= number <= longest:
        return number
    raise BadOption(name, value, f"1 to {longest:g} seconds")
