"""The range that an option of the lab has to lie in."""

from snowmelt.core.errors import BadOption


def within(option: str, value: float, least: float, most: float) -> None:
    """Refuses a value that is not in this range.

    >>> within("--rate", 0.0, 0.001, 1000)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --rate is 0.0; allowed: 0.001 to 1000
    """
    if not least <= value <= most:  # false for what is no number, too
        highest = most if isinstance(most, int) else f"{most:.15g}"
        raise BadOption(option, value, f"{least:g} to {highest}")
