"""What a person may say about a queue on the overlay, turned into what is kept with it."""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from snowmelt.client.queue.options import read_options
from snowmelt.core.errors import BadOption
from snowmelt.protocols.priority.settings import OF_PRIORITIES, OPTIONS, QueueSettings


class OverlayOptions(TypedDict, total=False):
    """The settings of a fifo on the overlay."""

    replicas: int
    lease: float
    max_deliveries: int
    max_items: int


class OverlayPriorityOptions(OverlayOptions, total=False):
    """Those of a queue with priorities there."""

    priorities: int | type[int] | type[float]
    largest_first: bool


class Wanted(msgspec.Struct, frozen=True):
    """What a queue is made with, and which of these settings it must have if it is there."""

    settings: QueueSettings
    said: tuple[str, ...]


def overlaid(ordering: str, producer: str | None, sequence: int | None) -> bool:
    """Whether a queue is to be ordered by the overlay.

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


def overlay_settings(name: str, options: Mapping[str, Any], *, fifo: bool) -> Wanted | None:
    """The settings asked for; None when nothing was said, and the queue is taken as it is.

    >>> wanted = overlay_settings("jobs", {"lease": 60}, fifo=False)
    >>> wanted.settings.kind, wanted.settings.lease, wanted.said
    ('any int', 60000000000, ('lease',))
    >>> overlay_settings("log", {"lease": 60}, fifo=True).said
    ('priorities', 'lease')
    >>> overlay_settings("log", {"flush": 0.5}, fifo=True)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: option is 'flush'; allowed: replicas, lease, max_deliveries,...
    """
    if not options:
        return None
    allowed = OPTIONS if fifo else OPTIONS | OF_PRIORITIES
    given: dict[str, Any] = {"priorities": 1} if fifo else {}
    given |= read_options(options, allowed)
    settings = QueueSettings(queue=name, **({"replicas": 0} | given)).checked()
    return Wanted(settings, tuple(given))
