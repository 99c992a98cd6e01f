"""What comes from outside: the bounds of each field, and how far a number may be ahead.

Each field of a message has a bound where it is declared, so what is beyond it never becomes a
message. These are the types for fields that have no closer bound of their own. What a person may
get wrong has a wide one in calls: the family refuses it in words.

Epochs and terms only grow, and whoever hears of a later one goes by it. So one word with a number
that nobody has counted to would be gone by for ever, and would leave no room above it. Of what is
within its bound a number far above one's own is told, and not gone by.
"""

from typing import Annotated, Final

import msgspec

COUNT_MAX: Final = 1 << 62

Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number that was drawn, or is only compared."""
Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
"""A number from which one counts on."""
Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""One that a family looks at and refuses in words."""
Unsigned = Annotated[int, msgspec.Meta(ge=0, extra={"bits": 64})]
"""One of 64 bits, which are only compared; msgpack has no longer ones."""
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Real = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
"""A number that may be a fraction, and is one: neither infinite nor "not a number"."""
Label = Annotated[str, msgspec.Meta(max_length=300)]
"""A name as it was said; whoever uses it checks what may be in it."""
Text = Annotated[str, msgspec.Meta(max_length=1 << 20)]
"""What people read."""
Blob = Annotated[bytes, msgspec.Meta(max_length=1 << 27)]
"""As many bytes as a frame may have, and more."""
MANY: Final = msgspec.Meta(max_length=1 << 20)
"""So many of what is told together."""


def is_far(told: int, mine: int, most: int) -> bool:
    """Whether a number is further above one's own than any that was counted; 0 is no number yet.

    >>> is_far(9, 5, 4), is_far(10, 5, 4), is_far(10, 0, 4)
    (False, True, False)
    """
    return 0 < mine < told - most
