"""Numbers that come from outside: what they may be, and how far ahead of one's own.

Epochs and terms only grow, and whoever hears of a later one goes by it. So one word with a number
that nobody has counted to would be gone by for ever, and would leave no room above it. Each such
field has its bound where it is declared; and of what is within it a number far above one's own is
told, and not gone by.
"""

from typing import Annotated, Final

import msgspec

COUNT_MAX: Final = 1 << 62

Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number that was drawn, or is only compared."""
Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
"""A number from which one counts on."""


def is_far(told: int, mine: int, most: int) -> bool:
    """Whether a number is further above one's own than any that was counted; 0 is no number yet.

    >>> is_far(9, 5, 4), is_far(10, 5, 4), is_far(10, 0, 4)
    (False, True, False)
    """
    return 0 < mine < told - most
