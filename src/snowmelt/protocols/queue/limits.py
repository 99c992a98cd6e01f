"""How much one machine with queues keeps at hand, remembers, and takes at once.

Not for people to choose: a machine of the product has these defaults. A simulated life shrinks
some of them, so that what happens at a limit happens in a life of a few seconds.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, seconds


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    # bodies
    recent_bytes: int = 64 << 20
    """Of segments at hand, so that what is read soon after it came is not read from the disk."""
    fetch_bytes: int = 65 << 20
    """Of items asked for in one answer; it ends with the put that reaches it."""
    spare_bytes: int = 4 << 20
    """Of what ended and is on the disk still, besides as much as lives (`thinning.py`)."""
    answer_bytes: int = 70 << 20
    """In one answer, with all that goes with the items: it must fit a frame, or nobody gets it."""
    spans_bytes: int = 16 << 20
    """Of what one answer tells of items that lie elsewhere, and of why they failed."""
    way_bytes: int = 64 << 20
    """Of what is large and goes to one node at once (`send_window.py`)."""

    # calls
    put_items: int = 32_768
    """In one put."""
    waiting_bytes: int = 320 << 20
    """Of puts on their way through one node; one client has twice what it leaves to others."""
    waiting_gets: int = 100_000
    """At one queue."""
    attempts: int = 64
    """Of one put that wait at its queue."""
    groups: int = 1_000
    """Of one queue."""
    staged: int = 100_000
    """Of batches of one queue that wait to be published."""
    producers: int = 100_000
    """Of one queue, that named themselves: those are remembered for ever."""
    clients: int = 1_000_000
    """Of one queue, that put under a name they made up: those are forgotten after a day."""
    get_items: int = 100_000
    """For one get, or one peek."""
    block_batches: int = 100
    """Of which one record tells (`batches.py`)."""
    few_blocks: int = 4
    """Of these a step writes anew as items of theirs end; beyond, it writes which items ended."""
    lease_runs: int = 1 << 15
    """From so many batches items are taken at once."""
    group_pieces: int = 1024
    """Of intervals given to a group at once; its record has them all."""
    surveyed: int = 100_000
    """Of items in one survey; each may lie elsewhere."""

    spare_every: Duration = seconds(10)
    """How often a data node asks which of its bodies nobody needs."""
    told: int = 256
    """Of what waited for a write, or for a step to be safe, in one turn; the rest in the next."""

    waiting_answers: int = 100_000
    """Of one queue, that wait for disks or followers; who asks for more is not heard: asked again,
    it may be when there are fewer."""

    # what is remembered
    answered: int = 10_000
    """Of gets, by a leader."""
    enders: int = 1_000
    """Of leases of which something went back: by which operation each ended."""
    producer_gaps: int = 8192
    """Of intervals of one producer's numbers; below them all numbers are refused."""
    producer_recent: int = 64
    """Of one producer's last numbers: where they went; for up to twice as many."""
    producer_refusals: int = 64
    """Of one producer's numbers that were refused last: who may not try again; see above."""
    queues: int = 10_000
    """In one cluster."""
    graves: int = 1_000
    """Of queues that were deleted, in one cluster, which are told apart from those never made."""
    foundations: int = 32
    foundations_each: int = 4
    """Of queues, under way at once, and for one who asks; those beyond wait in line."""
    questions: int = 10_000
    """After queues' homes, open at one node; and of queues that wait to be founded."""
    asked_again: int = 256
    asked_again_each: int = 64
    """Of those questions, each time that some are, and for one who asks."""


LIMITS: Final = QueueLimits()
"""Those of the product."""
