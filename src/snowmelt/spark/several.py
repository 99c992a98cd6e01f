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
    """How many rows each queue gives at most: the same of each, and what one lacks the others give.

    Those that lack some are asked first, so that it is known; the others in the order of the names.

    >>> shared_out(10, {"a": 100, "b": 1, "c": 100}, ["a", "b", "c"])
    {'b': 1, 'a': 5, 'c': 4}
    >>> shared_out(2, {"a": 9, "b": 8, "c": 7}, ["c", "a", "b"])
    {'c': 1, 'a': 1, 'b': 0}
    """
    shares: dict[str, int] = {}
    fair = -(-rows // max(1, len(names)))
    names = sorted(names, key=lambda name: min(fair, waiting.get(name, 0)))
    for place, name in enumerate(names):
        share = min(-(-rows // (len(names) - place)), waiting.get(name, 0))
        shares[name] = share
        rows -= share
    return shares
