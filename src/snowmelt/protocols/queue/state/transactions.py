"""Transactions: what is taken from some queues and put into others, all of it or nothing.

Theory of operation
-------------------
A transaction has a *home*: one of its queues, which decides. Its name is the home's, with a
producer and a number there. Whoever takes part can find out from the home what was decided.

1. What is to be put is *staged* in its queue first (`staged.py`), under the transaction's name. It
   is in no queue. When its hold is over it is not dropped: its leader asks the home.
2. What was taken from other queues than the home is *promised*: its lease does not end, and nobody
   else settles it. Some time later its leader asks the home.
3. The home decides in one entry of its log. The leases of what was taken from it are held; these
   items end; the number is used; and what is staged, and promised, is written down as *open*. If
   one of the leases is not held any more, nothing of it happens.
4. Nothing is told of a decision before that entry is safe. Then the home tells the others, again
   and again, whoever leads it by now, until each has said that its part is done and safe. Then
   nothing is open. Its client need not live for that.
5. What the home does not know it gives up: it closes the number for good, and says so when that is
   safe. So what was given up is not decided later, and what was decided is never given up.
6. Which batches are to be put the home says by their receipts, and a batch is put once. So a
   decision that is heard twice does nothing the second time. What else is staged under that name
   came of a call that was sent twice, and is dropped.
7. A part waits for room in its queue as a put does, and for numbers where there are several
   partitions (each has parts as a queue has). Its items are in when there is some.
8. A home is deleted when nothing is open there: until then it decides nothing more. What it did not
   decide is given up. One of which nobody else is here, or whose parts find no room, may be given
   up as lost; what was not told by then is given up with it. A queue that was deleted has no part.
9. A client that may have asked in vain, and says so, has the number closed first (rule 5). So what
   is still on its way decides nothing later.

Why publications stand beside
-----------------------------
A publication (`publications.py`) also puts what is staged in several queues, once. It is no
transaction with one producer and number, for a number means another thing there. Here it is one
attempt's: who hears nothing gives it up, and its next attempt has another, so the home may close
it (rule 5). There it is the work's, a micro-batch's for instance: whoever does that again, on
another machine or after a week, has the same number, so nobody may close it, and what an attempt
that died has staged is dropped without asking. Who comes again has staged anew, perhaps cut in
another way: so it is compared by a digest, and the first plan is ended with whatever receipts are
alive. And a publication is refused as `Full` where there is no room, and put then by nobody; and it
says where its items are. A transaction would have to carry the work's name and digest beside its
own, for as long as producers are remembered, and to say which queues it was for. That is most of
what `Plan` is: by our reckoning some two hundred lines less, and not one promise more.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.protocols.queue.api.calls import RECEIPTS_MAX, Commit, Receipt, Share

KIND: Final = b"o"
OPEN_MAX: Final = 1000
"""So many transactions of a home may have parts that are not done."""
NAMED_MAX: Final = 2 * RECEIPTS_MAX
"""And so many batches they may name together: all are told again and again."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class TransactionName(msgspec.Struct, frozen=True, array_like=True):
    """What those who take part know it by."""

    home: str
    producer: str
    number: int


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True):
    """One that was decided, with the parts that are not done; this is also its record."""

    shares: tuple[Share, ...]
    sources: tuple[str, ...]
    """Queues in which items are promised."""

    @property
    def queues(self) -> dict[str, tuple[Receipt, ...]]:
        """Who has a part, and what is to be put there.

        >>> OpenTransaction((Share("out", (), 0),), ("in",)).queues
        {'in': (), 'out': ()}
        """
        return dict.fromkeys(self.sources, ()) | {one.queue: one.receipts for one in self.shares}

    def without(self, queue: str) -> "OpenTransaction | None":
        """What is left when this part is done; None for nothing."""
        shares = tuple([one for one in self.shares if one.queue != queue])
        sources = tuple([one for one in self.sources if one != queue])
        return OpenTransaction(shares, sources) if shares or sources else None


_DECODE: Final = msgspec.msgpack.Decoder(OpenTransaction).decode
Name = tuple[str, int]
"""Of one at its home: its producer, and its number."""


class Transactions:
    """Those that a queue decided and that are open, and what of it is promised to others.

    >>> known = Transactions({})
    >>> known.keep(("loader", 7), OpenTransaction((), ("in",)))
    >>> known.done(("loader", 7), "in"), known.open
    (True, {})
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self.open: dict[Name, OpenTransaction] = {}
        self.promised: dict[TransactionName, dict[int, None]] = {}
        """The leases of each, by their tokens."""
        self._named = 0
        """How many batches those that are open name."""
        self._changed = changed

    def keep(self, name: Name, what: OpenTransaction) -> None:
        self._note(name, what)
        self._changed[_key(name)] = None

    def done(self, name: Name, queue: str) -> bool:
        """A part is done; whether that was the last one."""
        left = self.open[name].without(queue)
        if left is not None:
            self.keep(name, left)
            return False
        self._note(name, None)
        self._changed[_key(name)] = None
        return True

    def promise(self, name: TransactionName | None, token: int) -> None:
        """A lease is promised, or to none; that is in the lease's own record."""
        if name is not None:
            self.promised.setdefault(name, {})[token] = None

    def too_many(self, ask: Commit) -> str:
        """Why one more is too much."""
        named = self._named + _batches(ask.shares)
        if not self.open or (len(self.open) < OPEN_MAX and named <= NAMED_MAX):
            return ""
        text = f"queue {ask.queue!r} decided {len(self.open)} steps whose parts are not done yet"
        text = f"{text}, since some queues are full or away"
        return f"{text}; it takes {OPEN_MAX} of {NAMED_MAX} batches"

    def _note(self, name: Name, what: OpenTransaction | None) -> None:
        """It is open, or not any more."""
        for one, sign in ((self.open.get(name), -1), (what, 1)):
            self._named += sign * _batches(one.shares) if one is not None else 0
        if what is None:
            del self.open[name]
        else:
            self.open[name] = what

    # --- as they are written down -----------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        yield from map(_key, self.open)

    def record(self, key: bytes) -> bytes | None:
        known = self.open.get(_name(key))
        return None if known is None else _ENCODE(known)

    def restore(self, key: bytes, value: bytes) -> None:
        self._note(_name(key), _DECODE(value))


def _batches(shares: tuple[Share, ...]) -> int:
    return sum([len(one.receipts) for one in shares])


def _key(name: Name) -> bytes:
    return KIND + name[0].encode() + b"\0" + name[1].to_bytes(8)


def _name(key: bytes) -> Name:
    return key[1:-9].decode(), int.from_bytes(key[-8:])
