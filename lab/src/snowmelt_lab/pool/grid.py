"""A grid of experiments, as a person writes it: a value for each option, or a list of values.

    seed = 7
    consumers = [50, 100, 150, 200]
    max_hops = [1, 2, 3, 5, 10]
    groups = "50:2,50:1"
    access = ["uniform", "0.67,0.33"]

Lists are crossed. Every point has a seed of its own, drawn from the grid's seed and from what the
point is: so it stays the same whatever stands beside it, and no two points share their dice.
"""

import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.pool.options import PoolOptions, access_of, groups_of

POINTS_MAX: Final = 100_000
VALUE_OR_LIST: Final = "a value, or a list of values"


def _kinds() -> dict[str, Any]:
    """What may stand in a grid, and of which type it is; shares are written as access."""
    fields = {field.name: field.type for field in msgspec.structs.fields(PoolOptions)}
    del fields["shares"]
    return fields | {"groups": str, "access": str}


KINDS: Final = _kinds()


class Grid(msgspec.Struct, frozen=True):
    """The points, each once, and the names of the options that differ among them."""

    points: tuple[PoolOptions, ...]
    varied: tuple[str, ...]


def read(path: Path) -> Grid:
    try:
        return grid_of(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror})"
        raise BadOption("GRID", str(path), allowed) from error
    except RecursionError as error:
        raise BadOption("GRID", str(path), "a TOML file that is nested less deeply") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadOption("GRID", str(path), f"a TOML file ({error})") from error


def grid_of(table: Mapping[str, Any], common: PoolOptions | None = None) -> Grid:
    """The grid that a table tells; what it leaves out is as in `common`.

    >>> grid = grid_of({"max_hops": [1, 2, 3], "consumers": [50, 100], "buffers": 5})
    >>> len(grid.points), grid.varied
    (6, ('max_hops', 'consumers'))
    >>> grid_of({"hops": 3})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: hops is 3; allowed: one of the keys algorithm, producers, ...
    >>> grid_of({"max_hops": []})
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: max_hops is []; allowed: a value, or a list of values
    """
    lists = {key: _values(key, given) for key, given in table.items() if key != "seed"}
    count = prod(len(values) for values in lists.values())
    if count > POINTS_MAX:
        raise BadOption("GRID", f"{count:,} points", f"{POINTS_MAX:,} at most")
    seed = _seed(table.get("seed", 1))
    crossed = (dict(zip(lists, values, strict=True)) for values in product(*lists.values()))
    points = (seeded(_point(common or PoolOptions(), chosen), seed) for chosen in crossed)
    varied = tuple(key for key, values in lists.items() if len(values) > 1)
    return Grid(tuple(dict.fromkeys(points)), varied)


def seeded(point: PoolOptions, seed: int) -> PoolOptions:
    """The point with a seed that comes from `seed` and from all its other options.

    >>> one, other = (seeded(PoolOptions(max_hops=hops), 1) for hops in (3, 4))
    >>> one.seed == seeded(PoolOptions(seed=99), 1).seed, one.seed == other.seed
    (True, False)
    """
    told = msgspec.json.encode(msgspec.structs.replace(point, seed=0))
    digest = sha256(b"%d/%b" % (seed, told)).digest()
    return msgspec.structs.replace(point, seed=int.from_bytes(digest[:8]) >> 1)


def _seed(given: Any) -> int:
    seed: int = _value("seed", given)
    if seed < 0:
        raise BadOption("seed", seed, "0 or more")
    return seed


def _values(key: str, given: Any) -> list[Any]:
    several = given if isinstance(given, list) else [given]
    if not several:
        raise BadOption(key, given, VALUE_OR_LIST)
    return [_value(key, one) for one in several]


def _value(key: str, given: Any) -> Any:
    if key not in KINDS:
        raise BadOption(key, given, "one of the keys " + ", ".join(KINDS))
    try:
        return msgspec.convert(given, KINDS[key])
    except msgspec.ValidationError:
        raise BadOption(key, given, _allowed(KINDS[key])) from None


def _allowed(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(str(one.value) for one in kind)
    return {int: "a whole number", float: "a number", str: "text"}[kind]


def _point(common: PoolOptions, chosen: dict[str, Any]) -> PoolOptions:
    try:
        return msgspec.structs.replace(common, **dict(_settings(chosen)))
    except BadOption as error:  # the person wrote a key, no option of a command
        key = error.option.replace("--", "").replace("-", "_")
        raise BadOption(key, error.value, error.allowed) from None


def _settings(chosen: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in chosen.items():
        match key:
            case "groups":
                yield key, groups_of(value)
            case "access":
                yield from zip(("access", "shares"), access_of(value), strict=True)
            case _:
                yield key, value
