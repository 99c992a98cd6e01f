"""What consumers say became of their items, in one term of a leader.

1. What is said of a lease is said once: who asks again has the same answer.
2. Items of a lease may be extended alone, for a time of their own. They are a lease of their own
   from then on, of the same holder. It is still settled by the token that the holder was told: that
   of the lease which they were a part of. The rest of that lease ends when it would have; a word
   about it is answered by what is lost, since its parts are held still.
3. Of what is said to be done some may be held no more: an operator brought it back, or another of
   those who share a lease. The rest is done, and the answer names what is lost; where the lease is
   over, too, if some of it is done. Where that is too much to name, or where a position was never
   given, which is a fault of who asks, nothing is done.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval, IntervalSet, merged, without
from snowmelt.core.names import OperationId
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.leader.deadlines import Deadlines, delay
from snowmelt.protocols.queue.leader.open_calls import Answers, keep
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.state.state import LOST_MAX, Lease, QueueState

TOKEN_BITS: Final = 40
"""A token is its leader's term, and so many bits that count within it."""
PARTS_MAX: Final = 1_000
"""So many parts of a lease may be extended alone: a word about the lease looks at all of them."""


class Settling(LeaderPart):
    """Of one queue, in one term."""

    def __init__(self, own: Own, deadlines: Deadlines, tokens: Iterator[int]) -> None:
        super().__init__(own)
        self._deadlines = deadlines
        self._tokens = tokens
        self._said: Answers[msgspec.Struct] = OrderedDict()

    def settle(self, operation: OperationId, settle: calls.Settle) -> msgspec.Struct:
        """What came of it."""
        before = self._said.get(operation)
        if before is not None:
            return before
        pieces = self._state.pieces.get(settle.token)
        if pieces is None:
            told = self._settled(operation, settle)
        else:
            told = self._in_pieces(operation, settle, tuple(pieces))
        return keep(self._said, operation, told, self._outbox.limits.answered)

    def _in_pieces(
        self, operation: OperationId, settle: calls.Settle, pieces: tuple[int, ...]
    ) -> msgspec.Struct:
        """Of a lease of which some was extended alone (rule 2): of each part what it has of it."""
        said = settle.done, settle.back, settle.alone
        told: msgspec.Struct | None = None
        theirs = self._by_pieces(pieces, said)
        for token, mine in theirs.items():
            own = msgspec.structs.replace(
                settle,
                token=token,
                done=tuple(mine[0]),
                back=tuple(mine[1]),
                alone=tuple(mine[2]),
                extend=False,
            )
            told = self._settled(operation, own)
            if isinstance(told, Declined):
                return told
        gone = [[part for mine in theirs.values() for part in mine[at]] for at in range(3)]
        done, back, alone = map(without, said, gone)
        if told is not None and not (done or back or alone or settle.extend):
            return told
        rest = msgspec.structs.replace(settle, done=done, back=back, alone=alone)
        told = self._settled(operation, rest)
        if isinstance(told, Declined) and settle.token not in self._state.leases:
            live, all_ = self._state.batches.live, merged((*done, *back, *alone))
            parts = (part for one in all_ for part in live.within(one))
            lost = tuple(islice(parts, LOST_MAX + 1))
            if 0 < len(lost) <= LOST_MAX:
                return calls.Settled(0, lost=lost)
        return told

    def _by_pieces(
        self, pieces: tuple[int, ...], said: tuple[Collection[Interval], ...]
    ) -> dict[int, list[list[Interval]]]:
        """What of all that is said each part has. A look at all, however many parts there are."""
        leases, owners = self._state.leases, Pieces[int]()
        rows = sorted([(one, token) for token in pieces for one in leases[token].left])
        for part, whose in rows:
            owners.put(part, whose)
        found: dict[int, list[list[Interval]]] = {}
        for at, some in enumerate(said):
            for one in merged(some):
                for part, token in owners.common(one):
                    found.setdefault(token, [[], [], []])[at].append(part)
        return {token: found[token] for token in pieces if token in found}

    def _settled(self, operation: OperationId, settle: calls.Settle) -> msgspec.Struct:
        state, token = self._state, settle.token
        lease = state.leases.get(token)
        if lease is not None and (settle.secret != lease.secret or lease.promised is not None):
            text = f"lease {token} of queue {self._home.queue!r} is another's"
            return Declined("LeaseLost", text)
        if token >> TOKEN_BITS < self._home.since:
            text = f"queue {self._home.queue!r}, of which lease {token} is, was deleted"
            return Declined("LeaseLost", text)
        over = lease is None and state.enders.get(token) != operation
        more = settle.back or settle.alone or settle.extend
        done = [] if over and more else merged(settle.done)
        lost = tuple(state.settle(token, done))
        if over and list(lost) == done:
            so = "its items may be with another consumer"
            return Declined("LeaseLost", lease_over(self._home.queue, token, so))
        if len(lost) > LOST_MAX or (lost and lost[0].start not in state.batches.live):  # rule 3
            return Declined("LeaseLost", not_held(token, lost[0].start))
        if lease is None:
            return calls.Settled(0, lost=lost)
        if settle.back:
            self._give_back(operation, settle)
        left = lease.left.total
        if not left:
            self._deadlines.forget(token)
        elif token in self._deadlines and settle.alone:
            return self._extend_alone(token, lease, settle, lost)
        elif token in self._deadlines and settle.extend:
            self._extend(token, lease, settle.lease)
            return calls.Settled(left, lease.length or self._home.settings.lease, lost)
        return calls.Settled(left, lost=lost)

    def _extend(self, token: int, lease: Lease, length: Duration) -> None:
        """From now on it lasts its whole time, or so long."""
        if length and length != lease.length:
            lease.length = length
            self._state.touch(token)
        self._outbox.wake(self._deadlines.begin(token, self._outbox.now, lease.length))

    def _extend_alone(
        self, token: int, lease: Lease, settle: calls.Settle, lost: tuple[Interval, ...]
    ) -> msgspec.Struct:
        # Rule 2.
        alone = _within(lease.left, settle.alone)
        strange = without(settle.alone, alone)
        if strange:
            return Declined("LeaseLost", not_held(token, strange[0].start))
        if alone != tuple(lease.left):
            if len(self._state.pieces.get(lease.of or token, ())) >= PARTS_MAX:
                text = f"{PARTS_MAX} parts of lease {token} are extended alone; it takes no more"
                return Declined("TooLarge", text)
            token = next(self._tokens)
            lease = split_off(self._state, settle.token, alone, token)
        self._extend(token, lease, settle.lease)
        return calls.Settled(lease.left.total, lost=lost)

    def _give_back(self, operation: OperationId, settle: calls.Settle) -> None:
        self._state.give_back(
            operation,
            settle.token,
            merged(settle.back),
            due=delay(self._outbox, settle.due),
            reason=settle.reason,
            dead=settle.dead,
        )


def split_off(state: QueueState, token: int, some: tuple[Interval, ...], own: int) -> Lease:
    """Some of a lease, which are one of their own from now on."""
    whole = state.leases[token]
    whole.left.remove_all(some)
    state.touch(token)
    part = msgspec.structs.replace(whole, left=IntervalSet(some), of=whole.of or token)
    state.leases[own] = part
    state.pieces.setdefault(part.of, []).append(own)
    state.touch(own)
    return part


def _within(left: IntervalSet, some: Collection[Interval]) -> tuple[Interval, ...]:
    """What of these is in a set."""
    return tuple([part for one in merged(some) for part in left.common(one)])


def refusal(said: msgspec.Struct) -> str:
    """Why what came along with a get was not done, or not all of it; empty when it was."""
    match said:
        case Declined(_, text):
            return text
        case calls.Settled(lost=lost) if lost:
            return "some of its items are not held under it any more"
    return ""


def lease_over(queue: str, token: int, so: str) -> str:
    """Why nothing can be said of a lease."""
    return (
        f"lease {token} of queue {queue!r} is not held any more: its time was over, or it was "
        f"given back; {so}"
    )


def not_held(token: int, position: int) -> str:
    """Why nothing can be said of one of its items."""
    return f"position {position} is not held under lease {token}"
