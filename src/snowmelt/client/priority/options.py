"""What a person may say about a priority queue, turned into what the cluster keeps with it."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import msgspec

from snowmelt.client.queue.options import seconds_of, whole
from snowmelt.core.errors import BadOption
from snowmelt.protocols.priority.batches import PRIORITIES_MAX
from snowmelt.protocols.priority.settings import ANY, OPTIONS, QueueSettings


class PriorityOptions(TypedDict, total=False):
    """The settings of a priority queue; those not given are as `QueueSettings` has them."""

    priorities: int | type[int] | type[float]
    largest_first: bool
    replicas: int
    lease: float
    max_deliveries: int
    max_items: int


class OverlayOptions(TypedDict, total=False):
    """The settings of a fifo that is ordered by the overlay."""

    replicas: int
    lease: float
    max_deliveries: int
    max_items: int


class Wanted(msgspec.Struct, frozen=True):
    """What a queue is made with, and which of these settings it must have if it is there."""

    settings: QueueSettings
    said: tuple[str, ...]


def priority_settings(name: str, **options: Unpack[PriorityOptions]) -> Wanted | None:
    """The settings asked for; None when nothing was said, and the queue is taken as it is.

    >>> priority_settings("jobs") is None
    True
    >>> wanted = priority_settings("jobs", lease=60)
    >>> wanted.settings.kind, wanted.settings.lease, wanted.said
    ('any int', 60000000000, ('lease',))
    >>> priority_settings("jobs", priorities=float).settings.kind
    'any float'
    >>> priority_settings("jobs", priorities=1000)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: priorities is 1000; allowed: 1 to 256, int or float
    """
    given: dict[str, Any] = {}
    for option, value in options.items():
        if option == "priorities" and value in (int, float):
            given.update(priorities=ANY, floats=value is float)
            continue
        if option not in OPTIONS:
            raise BadOption("option", option, ", ".join(OPTIONS))
        given[OPTIONS[option]] = _read(option, value)
    if not given:
        return None
    settings = QueueSettings(queue=name, **({"replicas": 0} | given)).checked()
    return Wanted(settings, tuple(given))


def overlaid(ordering: str, producer: str | None, sequence: int | None) -> bool:
    """Whether a fifo is to be ordered by the overlay.

    >>> overlaid("overlay", "loader", None)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: producer is 'loader'; allowed: none with ordering="overlay"
    """
    if ordering not in {"master", "overlay"}:
        raise BadOption("ordering", ordering, '"master" or "overlay"')
    if ordering == "overlay":
        for option, value in (("producer", producer), ("sequence", sequence)):
            if value is not None:
                raise BadOption(option, value, 'none with ordering="overlay"')
    return ordering == "overlay"


def overlay_settings(name: str, options: Mapping[str, Any]) -> Wanted | None:
    """The settings of such a fifo, if any are given: it has one priority.

    >>> overlay_settings("log", {"flush": 0.5})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: option is 'flush'; allowed: replicas, lease, max_deliveries,...
    """
    for option in options:
        if option not in OverlayOptions.__annotations__:
            raise BadOption("option", option, ", ".join(OverlayOptions.__annotations__))
    return priority_settings(name, priorities=1, **options) if options else None


def _read(option: str, value: object) -> int:
    if option == "lease":
        return seconds_of("lease", value, 0.1, 43_200)
    if option == "largest_first":
        if not isinstance(value, bool):
            raise BadOption(option, value, "True or False")
        return value
    number = whole(option, value)
    if option == "priorities" and not 1 <= number <= PRIORITIES_MAX:
        raise BadOption(option, value, f"1 to {PRIORITIES_MAX}, int or float")
    return number
