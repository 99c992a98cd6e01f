"""Keepers that are not asked for copies for a while: they had no room, or were silent.

Who is silent may be here for the registry, and its master may not reach it, or it none of those
that have what it is to copy. It is passed over ever longer, until it answers or the view changes.
"""

from collections.abc import Iterable
from typing import Final

from snowmelt.core.instant import Duration, Instant, later, seconds

OUT_FOR: Final = seconds(10)
OUT_LONGEST: Final = seconds(80)


class PassedOver:
    """Those that one queue's master passes over.

    >>> out = PassedOver()
    >>> out.silent("n2/1", Instant(0)); out.silent("n2/1", Instant(seconds(10)))
    >>> "n2/1" in out, out.untils == [seconds(30)]
    (True, True)
    >>> out.end(Instant(seconds(30))); "n2/1" in out
    False
    """

    def __init__(self) -> None:
        self._until: dict[str, Instant] = {}
        self._silences: dict[str, int] = {}

    def __contains__(self, keeper: str) -> bool:
        return keeper in self._until

    @property
    def untils(self) -> Iterable[Instant]:
        return list(self._until.values())

    def forget(self) -> None:
        """Others are here now: what was in their way may have gone."""
        self._until.clear()
        self._silences.clear()

    def end(self, now: Instant) -> None:
        self._until = {one: until for one, until in self._until.items() if until > now}

    def answered(self, keeper: str, now: Instant, *, room: bool) -> None:
        """It has done what it was asked, or has no room for it."""
        self._silences.pop(keeper, None)
        if not room:
            self._until[keeper] = later(now, OUT_FOR)

    def silent(self, keeper: str, now: Instant) -> None:
        """It was asked in vain."""
        silences = self._silences.get(keeper, 0)
        self._silences[keeper] = silences + 1
        wait = Duration(min(OUT_FOR << min(silences, 8), OUT_LONGEST))
        self._until[keeper] = later(now, wait)
