"""What a person may say about their part in a pool, turned into what the machine takes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, Unpack

from snowmelt.client.queue.options import seconds_of
from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address
from snowmelt.protocols.pool.settings import (
    LEASE_LONGEST,
    Access,
    AccessKind,
    Delivery,
    PoolSettings,
    pool_name,
)
from snowmelt.runtime.peer.config import ANYWHERE

PREFETCH_MAX: Final = 1_000
_DAY: Final = 86_400.0


class PoolOptions(TypedDict, total=False):
    """One process' settings; those not given are as `PoolSettings` has them."""

    buffers: int
    max_bytes: int
    max_hops: int
    wait: float
    lease: float
    grace: float
    delivery: Literal["at_least_once", "at_most_once"]
    access: Literal["uniform", "adaptive"] | Mapping[str, float]
    fan_out: int
    spill: bool | str | Path
    producer: str
    listen: str
    advertise: str


def pool_settings(**options: Unpack[PoolOptions]) -> PoolSettings:
    """The settings asked for, checked.

    >>> pool_settings(buffers=10, access="uniform").buffers
    10
    >>> pool_settings(delivery="exactly_once")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: delivery is 'exactly_once'; allowed: at_least_once, at_most_once
    >>> pool_settings(access={"left": -1})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: access is {'left': -1.0}; allowed: weights of 0 or more
    """
    given: dict[str, Any] = {}
    for option, value in options.items():
        match option:
            case "buffers" | "max_hops" | "fan_out":
                given[option] = _whole(option, value)
            case "max_bytes":
                given["bytes_max"] = _whole(option, value)
            case "wait":
                given[option] = seconds_of(option, value, 0, _DAY)
            case "lease" | "grace":
                given[option] = seconds_of(option, value, 0, LEASE_LONGEST / 1e9)
            case "delivery":
                given[option] = _delivery(value)
            case "access":
                given[option] = _access(value)
            case "spill":
                if not isinstance(value, bool | str | Path):
                    raise BadOption(option, value, "a folder's path, True or False")
                given[option] = bool(value)
            case "producer":
                pool_name(_text(option, value))
            case "listen" | "advertise":
                Address.parse(_text(option, value), option)
            case _:
                raise BadOption("option", option, ", ".join(PoolOptions.__annotations__))
    return PoolSettings(**given).checked()


def spill_folder(name: str, options: PoolOptions) -> Path | None:
    """Where a spilling producer keeps its objects; one folder for each process.

    >>> spill_folder("frames", {"spill": True})
    PosixPath('frames.spill')
    """
    spill = options.get("spill", False)
    if not spill:
        return None
    return Path(f"{name}.spill") if spill is True else Path(spill)


def listening(options: PoolOptions) -> tuple[Address, Address | None]:
    """Where this process listens, and the address that others get."""
    listen = options.get("listen")
    advertise = options.get("advertise")
    return (
        Address.parse(listen, "listen") if listen else ANYWHERE,
        Address.parse(advertise, "advertise") if advertise else None,
    )


def check_prefetch(prefetch: int | None) -> None:
    """Raises `BadOption` for what can't be asked for ahead."""
    if prefetch is None:
        return
    if type(prefetch) is not int or not 0 <= prefetch <= PREFETCH_MAX:
        raise BadOption("prefetch", prefetch, f"a whole number, 0 to {PREFETCH_MAX}")


def _whole(option: str, value: object) -> int:
    if type(value) is not int:
        raise BadOption(option, value, "a whole number")
    return value


def _text(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadOption(option, value, "text")
    return value


def _delivery(value: object) -> Delivery:
    try:
        return Delivery(value)
    except ValueError:
        allowed = ", ".join(one.value for one in Delivery)
        raise BadOption("delivery", value, allowed) from None


def _access(value: object) -> Access:
    if value == "uniform":
        return Access(AccessKind.UNIFORM)
    if value == "adaptive":
        return Access(AccessKind.ADAPTIVE)
    if not isinstance(value, Mapping):
        raise BadOption("access", value, '"uniform", "adaptive", or weights by producers\' names')
    weights: dict[str, float] = {}
    for name, weight in value.items():
        if not isinstance(name, str) or type(weight) not in (int, float):
            raise BadOption("access", {name: weight}, "a producer's name, and a number")
        weights[name] = float(weight)
    return Access(AccessKind.WEIGHTED, weights).checked()
