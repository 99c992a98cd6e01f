"""How much one machine takes at once, and which form its trees have.

Not for people to choose: a machine of the product has these defaults. A simulated life shrinks
some of them, so that what happens at a limit happens in a life of a few seconds.
"""

from typing import Final

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    block: int = 512
    """So many positions lie together. Larger ones make fewer messages, smaller ones spread more."""
    deal: int = 8_192
    """So many elements are dealt to one home, and then to the next (`dealing.py`). 0: to whose the
    next block is, as by older versions."""
    arity: int = 8
    """Of the flat tree."""
    flat: bool = True
    """Whether batches climb the flat tree, or the one that lies in the ring."""
    queues: int = 4_096
    opens: int = 1_000
    """So many wait for one queue until it is made."""
    put_items: int = 32_768
    """In one put."""
    put_bytes: int = 64 << 20
    """In one put, bodies and headers."""
    in_hand: int = 100_000
    """Operations of one queue that one door has in hand."""
    in_hand_bytes: int = 512 << 20
    """Of puts of all queues, that one node has in hand as their door."""
    gone: int = 65_536
    """When so many are gone, all are told the large intervals (anchor, rule 6)."""
    gone_size: int = 1_024
    """Smaller intervals are not worth the word."""
    large: int = 8_192
    """What is gone in intervals of this size is told to all, whole (settling, rule 4)."""
    given: int = 32_768
    """Elements of one get, or removed at once, where priorities have no number: where each was put
    by itself it is a piece of its own, so more of them would hold up a node for seconds."""
    least: int = 64
    """So many elements a step of a phase shows at once (`seap`, rule 7)."""
    sample: int = 64
    """So many are sorted at once in a selection (`seap`, rule 8)."""
    read: int = 64 << 20
    """So many bytes of bodies are read from a disk at once, for whatever is asked."""
    recent: int = 64 << 20
    """So many bytes of bodies are at hand of what came of late."""
    few: int = 8
    """Fewer intervals are looked at, and written, one by one."""
    stash: int = 1_000
    """Messages of a view that this node has not heard of yet."""
    stash_bytes: int = 64 << 20
    """The same, in bytes."""


LIMITS: Final = Limits()
