"""What a person may say about a queue, turned into what the cluster keeps with it."""

import math
from collections.abc import Callable, Mapping
from itertools import count
from random import Random
from typing import Any, Final, Literal, TypedDict, Unpack

from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.session import new_name
from snowmelt.client.parted.order import PutOrder
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, Duration, seconds
from snowmelt.core.names import is_plain_name
from snowmelt.protocols.queue.api.settings import (
    ANY,
    FLAGS,
    FOR_EVER,
    KEY_BYTES_MAX,
    OF_PARTITIONS,
    OF_PRIORITIES,
    OPTIONS,
    PRIORITIES_MAX,
    REPLICAS_MAX,
    RETENTION_LONGEST,
    WEIGHT_MAX,
    QueueSettings,
    Weights,
    shown_weights,
    weights_of,
)
from snowmelt.wire.greeting import CLIENT_PREFIX

_PRODUCER_MAX: Final = 64
_SEQUENCE_MAX: Final = 2**62
_CHANCE: Final = Random()


Key = str | bytes
"""Of an item, such as the tenant that it is for."""


class QueueOptions(TypedDict, total=False):
    """The settings of a fifo; those not given are as `QueueSettings` has them."""

    replicas: int
    durable_copies: int
    flush: float | Literal["always"]
    lease: float
    max_deliveries: int
    max_items: int
    max_bytes: int
    inline_max: int
    retention: float
    in_order_by_key: bool
    at_once_by_key: int
    at_once: int
    per_second_by_key: int
    per_second: int
    fair: bool
    weights: Mapping[Key, int]
    partitions: int


def queue_settings(**options: Unpack[QueueOptions]) -> QueueSettings | None:
    """The settings asked for; None when nothing was said, and the queue is taken as it is.

    >>> queue_settings() is None
    True
    >>> queue_settings(replicas=3, flush=0.05).linger
    50000000
    >>> queue_settings(lease=0)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: lease is 0; allowed: 0.1 to 43200 seconds
    """
    given = read_options(options, OPTIONS | OF_PARTITIONS)
    return _checked_settings({"replicas": 0} | given) if given else None


def _checked_settings(given: Mapping[str, Any]) -> QueueSettings:
    weights = weights_of(given.get("weights", {}))
    said = QueueSettings(**{**given, "weights": weights}).checked()
    if said.weights and not said.fair:
        raise BadOption("weights", shown_weights(said.weights), "only with fair=True")
    return said


def altered_options(options: QueueOptions) -> tuple[tuple[tuple[str, int], ...], Weights]:
    """What is to be altered, as a call names it; weights of keys apart.

    >>> altered_options({"lease": 60, "weights": {"a": 3}})
    ((('lease', 60000000000),), ((b'a', 3),))
    >>> altered_options({})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: option is 'nothing'; allowed: replicas, durable_copies,...
    """
    strange = next((one for one in options if one not in OPTIONS), None)
    if strange is not None or not options:
        allowed = ", ".join(OPTIONS) + (f"; {FOR_EVER}" if strange else "")
        raise BadOption("option", strange or "nothing", allowed)
    given = read_options(options, OPTIONS)
    weights = given.pop("weights", {})
    return tuple(given.items()), tuple(weights.items())


class PriorityOptions(QueueOptions, total=False):
    """The settings of a queue with priorities: a fifo's, and these."""

    priorities: int | type[int] | type[float]
    largest_first: bool


def ranked_settings(**options: Unpack[PriorityOptions]) -> QueueSettings | None:
    """The same for a queue with priorities.

    >>> settings = ranked_settings(lease=60)
    >>> settings.kind, settings.lease, ranked_settings(priorities=float).kind
    ('any int', 60000000000, 'any float')
    >>> ranked_settings(priorities=1000)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: priorities is 1000; allowed: 1 to 256, int or float
    """
    given = read_options(options, OPTIONS | OF_PRIORITIES | OF_PARTITIONS)
    if not given:
        return None
    return _checked_settings({"replicas": 0, "priorities": ANY} | given)


def as_key(key: object, option: str = "key") -> bytes:
    """A key as it is kept; raises `BadOption`.

    >>> as_key("tenant-7")
    b'tenant-7'
    """
    if isinstance(key, str):
        key = key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes) and 0 < len(key) <= KEY_BYTES_MAX:
        return bytes(key)  # not one of a class of its own, as NumPy has
    raise BadOption(option, key, f"text or bytes, of 1 to {KEY_BYTES_MAX} bytes")


def seconds_of(option: str, value: object, lowest: float, highest: float) -> Duration:
    """A number of seconds between two bounds; raises `BadOption`."""
    if isinstance(value, int | float) and lowest <= value <= highest:
        return seconds(value)
    raise BadOption(option, value, f"{lowest:g} to {highest:.12g} seconds")


def read_options(options: Mapping[str, Any], allowed: Mapping[str, str]) -> dict[str, Any]:
    """What a person said of some options, under the names by which it is kept; raises `BadOption`.

    >>> read_options({"lease": 60, "priorities": float}, OPTIONS | OF_PRIORITIES)
    {'lease': 60000000000, 'priorities': 0, 'floats': True}
    """
    given: dict[str, Any] = {}
    for option, value in options.items():
        if option not in allowed:
            raise BadOption("option", option, ", ".join(allowed))
        if option == "priorities" and value in (int, float):
            given.update(priorities=ANY, floats=value is float)
        elif option == "weights":
            given[option] = _read_weights(value)
        else:
            given[allowed[option]] = _read(option, value)
    return given


def _read_weights(value: object) -> dict[bytes, int]:
    """Of keys, as text or bytes.

    >>> _read_weights({"a": 0})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: the weight of b'a' is 0; allowed: 1 to 1000
    """
    if not isinstance(value, Mapping):
        raise BadOption("weights", value, 'a mapping of keys to whole numbers, as {"tenant-7": 3}')
    weights = {as_key(key): weight for key, weight in value.items()}
    for key, weight in weights.items():
        if type(weight) is not int or not 1 <= weight <= WEIGHT_MAX:
            raise BadOption(f"the weight of {key!r}", weight, f"1 to {WEIGHT_MAX}")
    return weights


def _read(option: str, value: object) -> int:
    if option == "flush" and value == "always":
        return 0
    if option == "flush":
        if not isinstance(value, int | float) or math.isnan(value) or not 0.001 <= value <= 10:
            raise BadOption("flush", value, '"always", or 0.001 to 10 seconds')
        return seconds(value)
    if option == "lease":
        return seconds_of("lease", value, 0.1, 43_200)
    if option == "retention" and value != 0:
        return seconds_of("retention", value, 1, RETENTION_LONGEST / SECOND)
    if option == "largest_first" or option in FLAGS:
        if not isinstance(value, bool):
            raise BadOption(option, value, "True or False")
        return value if option == "largest_first" else int(value)
    if option == "priorities" and not (type(value) is int and 1 <= value <= PRIORITIES_MAX):
        raise BadOption(option, value, f"1 to {PRIORITIES_MAX}, int or float")
    return whole(option, value)


def whole(option: str, value: object) -> int:
    """A whole number; raises `BadOption`. That nothing is said of copies is said by nobody.

    >>> whole("replicas", 0)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: replicas is 0; allowed: 1 to 7
    """
    if type(value) is not int:
        raise BadOption(option, value, "a whole number")
    if option == "replicas" and not value:
        raise BadOption(option, value, f"1 to {REPLICAS_MAX}")
    return value


class ProducerSequence:
    """Who puts, and the numbers of its puts: the same name and number is the same put.

    >>> named = ProducerSequence("loader-7", first=40)
    >>> named.number(None), named.number(None), named.number(7)
    (40, 41, 7)
    >>> ProducerSequence("loader-7").number(None)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: sequence is None; allowed: a number with each put...
    """

    def __init__(
        self,
        name: str | None = None,
        first: int | None = None,
        names: Callable[[], str] = new_name,
        chance: Random = _CHANCE,
    ) -> None:
        self._new_name = names
        self._chance = chance
        self.named = name is not None
        if name is not None and (
            not is_plain_name(name, _PRODUCER_MAX) or name.startswith(CLIENT_PREFIX)
        ):
            allowed = f"1 to 64 of A-Z a-z 0-9 . _ -, not beginning with {CLIENT_PREFIX}"
            raise BadOption("producer", name, allowed)
        if first is not None and not self.named:
            raise BadOption("sequence", first, "none without producer=NAME")
        self.name: str = name if name is not None else names()
        start = 1 if first is None else _checked(first)
        self._numbers = None if self.named and first is None else count(start)
        self._counts_elsewhere = False
        self._beside: ProducerSequence | None = None
        self.order = PutOrder(chance)
        """In which partitions it puts, where there are several."""
        self._begin()
        watch(self)

    def another(self) -> "ProducerSequence":
        """One without a name that was given, which draws as this one does."""
        return ProducerSequence(None, None, self._new_name, self._chance)

    @property
    def unnamed(self) -> "ProducerSequence":
        """The same, or one beside it, whose numbers count by themselves."""
        if self.named and self._beside is None:
            self._beside = self.another()
        return self._beside or self

    def _begin(self) -> None:
        self.caller: str = self._new_name() if self.named else self.name
        """Which client calls: with the turn it shows nodes which attempts belong together."""
        self._turns = count(1)

    def forked(self) -> None:
        """A child puts under a name of its own; a name that was given has one who counts."""
        if self.named:
            self._counts_elsewhere, self._numbers = self._numbers is not None, None
        else:
            self.name, self._numbers = self._new_name(), count(1)
        self._begin()
        self.order.forked()

    def turn(self) -> int:
        """The number of the next put that a person asks for, however often it is attempted."""
        return next(self._turns)

    def number(self, given: int | None) -> int:
        """The number of the next put, or the one given."""
        if given is not None:
            if not self.named:
                raise BadOption("sequence", given, "none without producer=NAME")
            return _checked(given)
        if self._counts_elsewhere:
            allowed = (
                "a number with each put, or another producer=NAME: in this process, a fork of the "
                f"one that made it, two would count for {self.name}"
            )
            raise BadOption("sequence", given, allowed)
        if self._numbers is None:
            allowed = (
                "a number with each put, or the first with the queue: this producer has a name"
            )
            raise BadOption("sequence", given, allowed)
        return next(self._numbers)


def _checked(number: object) -> int:
    if type(number) is int and 0 <= number < _SEQUENCE_MAX:
        return number
    raise BadOption("sequence", number, "a whole number, 0 or more")
