"""What becomes of an item whose handler raised: when it comes again, or that it never does."""

from collections.abc import Mapping
from pathlib import PurePath
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from snowmelt.client.leases.delivered import shortened
from snowmelt.client.leases.reasons import text_of
from snowmelt.core.errors import BadOption, CodecError

SECONDS_MAX: Final = 30 * 86_400.0
_TEXT: Final = 600
"""A message is cut to so much, so that there is room for where it was raised."""


class Retry(msgspec.Struct, frozen=True):
    """How often an item comes again after it failed, and how long it waits before.

    It waits `first` seconds, then twice as long each time, up to `longest`; by chance up to half as
    long, so that what failed together does not come together. After `times` such retries it is
    dead; without a number, after the `max_deliveries` of its queue.
    """

    first: float = 1.0
    longest: float = 300.0
    times: int | None = None

    def __post_init__(self) -> None:
        for option, value in (("first", self.first), ("longest", self.longest)):
            if type(value) not in (int, float) or not 0 <= value <= SECONDS_MAX:
                raise BadOption(option, value, f"0 to {SECONDS_MAX:.0f} seconds")
        if self.times is not None and (type(self.times) is not int or self.times < 0):
            raise BadOption("times", self.times, "a whole number, 0 or more, or None")

    def wait(self, failures: int, chance: Random) -> float:
        """How long before the next delivery, after so many that failed before.

        >>> retry = Retry(first=1, longest=60)
        >>> [round(retry.wait(failures, Random(7)), 1) for failures in range(4)]
        [0.7, 1.3, 2.6, 5.3]
        """
        longest = min(self.longest, self.first * 2.0 ** min(failures, 60))
        return longest * chance.uniform(0.5, 1.0)


Kinds: TypeAlias = Mapping[type[BaseException], Retry | None]
"""By kind of error; None: it is dead at once."""


class FailureOutcome(msgspec.Struct, frozen=True):
    wait: float
    dead: bool
    reason: str


class Retrying:
    """What `retry` says of each kind of error: the nearest of its classes that is named counts.

    >>> retrying = Retrying({ConnectionError: Retry(first=8), LookupError: None})
    >>> retrying.fate(KeyError("id"), 0, Random(7))
    FailureOutcome(wait=0.0, dead=True, reason="KeyError: 'id'")
    >>> retrying.fate(ConnectionResetError("gone"), 1, Random(7)).wait > 8
    True
    """

    def __init__(self, retry: Any) -> None:
        self._kinds: dict[type[BaseException], Retry | None] = {
            BaseException: Retry(),
            CodecError: None,  # its body is the same the next time
        }
        if retry is None or isinstance(retry, Retry):
            self._kinds[BaseException] = retry
            return
        if not isinstance(retry, Mapping):
            raise BadOption("retry", retry, "a Retry, None, or a map from kinds of error to these")
        for kind, one in retry.items():
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise BadOption("a kind of error", kind, "a class of exceptions")
            if not (one is None or isinstance(one, Retry)):
                raise BadOption(f"retry of {kind.__name__}", one, "a Retry, or None")
            self._kinds[kind] = one

    @property
    def buries(self) -> bool:
        """Whether anything that was said makes items dead."""
        said = [one for kind, one in self._kinds.items() if kind is not CodecError]
        return any(one is None or one.times is not None for one in said)

    def fate(self, error: BaseException, failures: int, chance: Random) -> FailureOutcome:
        """What becomes of an item that had failed so often before, and has now."""
        retry = next(self._kinds[one] for one in type(error).__mro__ if one in self._kinds)
        if retry is None or (retry.times is not None and failures >= retry.times):
            return FailureOutcome(0.0, True, last_line(error))
        return FailureOutcome(retry.wait(failures, chance), False, last_line(error))


def last_line(error: BaseException) -> str:
    """What a traceback says last, and where that was raised.

    >>> last_line(ValueError("no number"))
    'ValueError: no number'
    """
    name, said = type(error).__name__, text_of(error)
    text = f"{name}: {said}" if said else name
    trace = error.__traceback__
    if trace is None:
        return shortened(text)
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    file = PurePath(code.co_filename).name
    return shortened(f"{text[:_TEXT]} ({file}, line {trace.tb_lineno}, in {code.co_name})")
