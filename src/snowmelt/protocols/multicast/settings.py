"""How much is kept of topics, and how patient the nodes are; the same on every node."""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption, TooLarge
from snowmelt.core.instant import Duration, milliseconds, seconds
from snowmelt.core.names import is_plain_name
from snowmelt.protocols.multicast.calls import BODY_BYTES_MAX, CALL_BODIES_MAX, CALL_BYTES_MAX

_NAME_MAX: Final = 90  # a baton's, with a word before it


class MulticastSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is waited for, how long, and what is kept."""

    beat: Duration = milliseconds(500)
    """How often what is missing is sent or asked for again."""
    patience: Duration = seconds(3)
    """How long a silent member holds up a search."""
    awake: Duration = seconds(60)
    """How long after anything happened nodes tell each other how far they are."""
    kept_messages: int = 10_000
    kept_bytes: int = 16 << 20
    """What is kept of one topic."""
    node_bytes: int = 256 << 20
    """What is kept of all topics together."""
    queued_bytes: int = 16 << 20
    """What one node takes of one topic that not everybody has heard yet."""


def is_topic_name(text: str) -> bool:
    """Whether it may be such a name."""
    return is_plain_name(text, _NAME_MAX)


def topic_name(text: object) -> str:
    """Checks a topic's name.

    >>> topic_name("prices/oil")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: topic is 'prices/oil'; allowed: 1 to 90 of A-Z a-z 0-9 . _ -...
    """
    if not isinstance(text, str) or not is_topic_name(text):
        raise BadOption("topic", text, "1 to 90 of A-Z a-z 0-9 . _ -, the first a letter or digit")
    return text


def check_bodies(bodies: Sequence[bytes]) -> None:
    """Checks what one call is to publish.

    >>> check_bodies([])
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: bodies is 0; allowed: 1 to 4096 in one call
    """
    if not 1 <= len(bodies) <= CALL_BODIES_MAX:
        raise BadOption("bodies", len(bodies), f"1 to {CALL_BODIES_MAX} in one call")
    longest = max(map(len, bodies))
    if longest > BODY_BYTES_MAX:
        raise TooLarge(
            f"a body of {longest} bytes; at most {BODY_BYTES_MAX} can be published: put more into "
            "a fifo or a pool, and publish where"
        )
    size = sum(map(len, bodies))
    if size > CALL_BYTES_MAX:
        raise TooLarge(f"bodies of {size} bytes; one call takes at most {CALL_BYTES_MAX}")
