"""Several queues of a cluster asked at the same time, and rows shared out among them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

ASKED_AT_ONCE: Final = 8
T = TypeVar("T")


def asked(names: Iterable[str], ask: Callable[[str], T]) -> dict[str, T]:
    """What each answers, by its name; raises what the first of them raises.

    >>> asked(["raw", "late"], len)
    {'raw': 3, 'late': 4}
    """
    every = list(names)
    if len(every) < 2:
        return {name: ask(name) for name in every}
    with ThreadPoolExecutor(min(len(every), ASKED_AT_ONCE)) as threads:
        return dict(zip(every, threads.map(ask, every), strict=True))


def shared_out(rows: int, waiting: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    """How many rows each queue gives at most: the same of each, and what one lacks the next give.

    >>> shared_out(10, {"a": 1, "b": 100, "c": 100}, ["a", "b", "c"])
    {'a': 1, 'b': 5, 'c': 4}
    >>> shared_out(2, {"a": 9, "b": 9, "c": 9}, ["c", "a", "b"])
    {'c': 1, 'a': 1, 'b': 0}
    """
    shares: dict[str, int] = {}
    for place, name in enumerate(names):
        share = min(-(-rows // (len(names) - place)), waiting.get(name, 0))
        shares[name] = share
        rows -= share
    return shares
