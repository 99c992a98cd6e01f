"""What an option of the lab may be: a number within a range, or one of some words."""

from enum import Enum
from typing import TypeVar

from snowmelt.core.errors import BadOption

Kind = TypeVar("Kind", bound=Enum)


def within(option: str, value: float, least: float, most: float) -> None:
    """Refuses a value that is not in this range.

    >>> within("--rate", 0.0, 0.001, 1000)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --rate is 0.0; allowed: 0.001 to 1000
    """
    if not least <= value <= most:  # false for what is no number, too
        highest = most if isinstance(most, int) else f"{most:.15g}"
        raise BadOption(option, value, f"{least:g} to {highest}")


def one_of(option: str, kind: type[Kind], text: str) -> Kind:
    """The one that is meant, by its value.

    >>> from snowmelt_lab.pool.options import Times
    >>> one_of("--times", Times, "even")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --times is 'even'; allowed: exponential, uniform, constant
    """
    try:
        return kind(text)
    except ValueError:
        raise BadOption(option, text, ", ".join(one.value for one in kind)) from None
