"""What a check concludes: valid, invalid with a small example, or undecided with the reason.

- `Valid`: some legal execution explains everything that was seen.
- `Invalid`: no legal execution can; the example alone is enough to see it.
- `Undecided`: the history does not hold enough to say, and the reason tells what is missing. A
  check that broke is undecided, never valid.
"""

from collections.abc import Iterable

import msgspec

from snowmelt_world.check.history import Operation


class Valid(msgspec.Struct, frozen=True, tag="valid", tag_field="verdict"):
    """The property holds. `report` holds the counts of a check that counts.

    >>> print(Valid("fifo"))
    fifo: valid
    """

    property: str
    report: msgspec.Struct | None = None

    def __str__(self) -> str:
        return f"{self.property}: valid"


class Invalid(msgspec.Struct, frozen=True, tag="invalid", tag_field="verdict"):
    """The property does not hold, and these few operations show it.

    >>> print(Invalid("fifo", "'a' was got and never put", ()))
    fifo: invalid: 'a' was got and never put
    """

    property: str
    sentence: str
    example: tuple[Operation, ...]
    report: msgspec.Struct | None = None

    def __str__(self) -> str:
        lines = [f"{self.property}: invalid: {self.sentence}", *map(repr, self.example)]
        return "\n    ".join(lines)


class Undecided(msgspec.Struct, frozen=True, tag="unknown", tag_field="verdict"):
    """The history does not say whether the property holds.

    >>> print(Undecided("conservation", "nothing shows that the queue was emptied"))
    conservation: unknown: nothing shows that the queue was emptied
    """

    property: str
    reason: str
    report: msgspec.Struct | None = None
    example: tuple[Operation, ...] = ()
    """What the reason speaks of."""

    def __str__(self) -> str:
        return f"{self.property}: unknown: {self.reason}"


Verdict = Valid | Invalid | Undecided
Finding = Invalid | Undecided
"""What is not as it should be, or not known to be."""


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for many: the first invalid, else the first undecided, else valid.

    >>> combine([Valid("fifo"), Undecided("conservation", "not drained")])
    Undecided(property='conservation', reason='not drained', report=None, example=())
    >>> combine([])
    Undecided(property='all', reason='nothing was checked', report=None, example=())
    """
    verdicts = list(verdicts)
    if not verdicts:
        return Undecided("all", "nothing was checked")
    for worse in (Invalid, Undecided):
        for verdict in verdicts:
            if isinstance(verdict, worse):
                return verdict
    return Valid(", ".join(verdict.property for verdict in verdicts))
