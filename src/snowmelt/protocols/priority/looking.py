"""A door's looks: what is next, how a queue stands, and what is to become of its dead elements.

Where the next elements stand, the anchor knows; what they are, and how all stand, their homes. A
look that a new view interrupts begins again; what it was told to have removed, or brought back, is
counted then, too.

1. What was selected may be gone before its home is asked for it, or be on its way to a new home:
   then it is selected again, and after `SELECTIONS` times whoever asks hears that, and not that
   there is nothing of that rank.
2. A home tells its first ones, as many as it reads and tells at once. What other homes have behind
   the last of these is not shown, since the home's next ones may stand before it.
3. How a queue stands is asked of its homes alone. Each counts all that it has at one moment, so
   what is free, then leased, then free again is counted once, and never not at all.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import msgspec

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Shares, Some, summed
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.ends import Ends
from snowmelt.protocols.priority.fitting import fitting
from snowmelt.protocols.priority.gets import ordered
from snowmelt.protocols.priority.messages import Look, Looked, Piece, Read, Refusal, Seen, Word
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import first_of
from snowmelt.protocols.priority.sending import Sending, Sent
from snowmelt.protocols.priority.settings import How, QueueSettings

LOOKS_MAX: Final = 1_000
"""So many wait for their answers."""
SELECTIONS: Final = 16
"""So often something is selected for one look (rule 1)."""
PEEK_BYTES: Final = 16 << 20
"""What one look shows at most."""

Call = calls.Peek | calls.Select | calls.Statistics | calls.Purge | calls.Redrive


class Stage(IntEnum):
    ANCHOR = 0
    HOMES = 1
    ENDS = 2


class LookInHand(msgspec.Struct):
    operation: OperationId
    call: Call
    stage: Stage = Stage.ANCHOR
    waits: int = 0
    shares: Shares = ()
    free: tuple[Some, ...] = ()
    pieces: list[Piece] = []
    ends: list[tuple[int, int] | None] = []
    """Where the last stands that a home told, for each that has more; None where it told none."""
    leased: int = 0
    held: int = 0
    dead: list[tuple[NodeId, Shares]] = []
    short: int = 0
    count: int = 0
    tries: int = 1
    """How often it was begun in this view."""


class Looking:
    """Of one queue, at one door."""

    def __init__(self, desk: Desk, settings: QueueSettings, sending: Sending) -> None:
        self._desk = desk
        self._settings = settings
        self._sending = sending
        self._ends = Ends(desk, settings.queue, sending)
        self._root: NodeId | None = None
        self._placing: Placing | None = None
        self._hand: dict[OperationId, LookInHand] = {}

    def begin(self, operation: OperationId, call: Call) -> None:
        if len(self._hand) >= LOOKS_MAX and operation not in self._hand:
            text = f"{LOOKS_MAX} look at queue {self._settings.queue} here just now; ask again"
            self._desk.decline(operation, "Unavailable", text)
        elif operation not in self._hand and self._root is not None:
            self._hand[operation] = LookInHand(operation, call)
            self._start(self._hand[operation])

    def viewed(self, root: NodeId | None, placing: Placing | None) -> None:
        """All begin again."""
        self._root, self._placing = root, placing
        self._ends.viewed()
        for operation, one in list(self._hand.items()):
            self._hand[operation] = LookInHand(operation, one.call, count=one.count)
            if root is not None:
                self._start(self._hand[operation])

    def looked(self, source: NodeId, message: Looked) -> None:
        one = self._of(self._sending.answered(source, message.serial))
        if one is not None:
            one.shares = message.shares
            self._read(one, message.shares, everybody=False)

    def seen(self, source: NodeId, message: Seen) -> None:
        one = self._of(self._sending.answered(source, message.serial))
        if one is None:
            return
        one.waits -= 1
        one.pieces.extend(message.pieces)
        if message.more:
            one.ends.append(_end(message.pieces[-1]) if message.pieces else None)
        if one.stage == Stage.HOMES:
            one.free = summed([*one.free, *message.free])  # rule 3
            one.leased += message.leased
            one.held += message.held
            one.short += message.short
            if message.dead:
                one.dead.append((source, message.dead))
        if one.waits == 0:
            self._next(one)

    def ended(self, operation: OperationId, word: Word, refusal: Refusal | None) -> bool:
        """A home has done what it was told about dead ones; whether this was a look's."""
        one = self._hand.get(operation)
        if one is None:
            return False
        one.count += sum([share.total for share in word.shares])
        one.count -= sum([share.total for share in refusal.shares]) if refusal is not None else 0
        one.waits -= 1
        if one.waits == 0:
            self._answer(one, calls.Counted(one.count))
        return True

    def leave(self) -> None:
        if self._ends.words:
            self._ends.leave()

    def _of(self, sent: Sent | None) -> LookInHand | None:
        return None if sent is None or not sent.operations else self._hand.get(sent.operations[0])

    def _start(self, one: LookInHand) -> None:
        assert self._root is not None
        call = one.call
        rank, share = (call.rank, call.share) if isinstance(call, calls.Select) else (0, None)
        if isinstance(call, calls.Select):
            count = 1
        elif isinstance(call, calls.Peek) and not call.dead:
            count = call.items_max
        else:
            self._read(one, (), everybody=True)
            return

        def make(serial: int) -> Look:
            return Look(self._desk.era, self._settings.queue, serial, count, rank, share)

        self._sending.send(self._root, (one.operation,), make)

    def _read(self, one: LookInHand, shares: Shares, *, everybody: bool) -> None:
        assert self._placing is not None
        parts = self._placing.by_home(shares)
        targets: Sequence[NodeId] = self._desk.members if everybody else sorted(parts)
        if one.stage == Stage.ANCHOR:
            one.stage = Stage.HOMES
        if not targets:
            self._next(one)
        for target in targets:
            one.waits += 1
            theirs = parts.get(target, ())

            def make(serial: int, theirs: Shares = theirs) -> Read:
                return Read(self._desk.era, self._settings.queue, serial, theirs)

            self._sending.send(target, (one.operation,), make)

    def _next(self, one: LookInHand) -> None:
        call = one.call
        dead = [share for _, shares in one.dead for share in shares]
        if isinstance(call, calls.Statistics):
            count = sum([share.total for share in dead])
            status = calls.Status(
                self._settings, self._root or self._desk.me, one.free, one.leased, one.held, count,
                one.short,
            )  # fmt: skip
            self._answer(one, status)
        elif isinstance(call, calls.Peek) and call.dead and one.stage == Stage.HOMES and dead:
            one.stage = Stage.ENDS
            one.shares = first_of(dead, call.items_max)
            self._read(one, one.shares, everybody=False)
        elif isinstance(call, calls.Peek | calls.Select):
            self._show(one)
        elif one.dead:
            self._tell(one)
        else:
            self._answer(one, calls.Counted(one.count))

    def _show(self, one: LookInHand) -> None:
        pieces = _before(self._ordered(one), one.ends)
        if not pieces and (one.ends or (isinstance(one.call, calls.Select) and one.shares)):
            self._select_again(one)
        else:
            self._answer(one, calls.Peeked(fitting(pieces, PEEK_BYTES)[0]))

    def _select_again(self, one: LookInHand) -> None:
        """Rule 1."""
        again = LookInHand(one.operation, one.call, tries=one.tries + 1)
        if again.tries <= SELECTIONS:
            self._hand[one.operation] = again
            self._start(again)
            return
        del self._hand[one.operation]
        text = f"what is asked for in queue {self._settings.queue} can't be read now; ask again"
        self._desk.decline(one.operation, "Unavailable", text)

    def _ordered(self, one: LookInHand) -> tuple[Piece, ...]:
        """As they would be got."""
        if self._settings.keyed:
            return ordered(one.pieces, self._settings)
        rank = {share.priority: at for at, share in enumerate(one.shares)}
        return tuple(sorted(one.pieces, key=lambda piece: (rank[piece.priority], piece.start)))

    def _tell(self, one: LookInHand) -> None:
        one.stage = Stage.ENDS
        how = How.REDRIVE if isinstance(one.call, calls.Redrive) else How.PURGE
        one.waits += self._ends.say(one.dead, how, operation=one.operation)

    def _answer(self, one: LookInHand, answer: calls.Peeked | calls.Status | calls.Counted) -> None:
        del self._hand[one.operation]
        self._desk.reply(one.operation, answer)


def _before(pieces: tuple[Piece, ...], ends: list[tuple[int, int] | None]) -> tuple[Piece, ...]:
    """The first of them, up to where a home has more (rule 2)."""
    if not ends:
        return pieces
    if None in ends:
        return ()
    last = next((at for at, piece in enumerate(pieces) if _end(piece) in ends), len(pieces))
    return pieces[: last + 1]


def _end(piece: Piece) -> tuple[int, int]:
    return piece.priority, piece.start + piece.count - 1
