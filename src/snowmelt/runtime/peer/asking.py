"""The calls of an engine: how they reach its owner, their answers, and what nobody has taken.

1. Whoever wants something of the machine leaves a word for the owner's thread (`engine_thread.py`),
   which says it in its next turn. That takes no lock.
2. A call has one answer, told in the owner's thread.
3. What an answer brings is somebody's from then on: of the call itself, until it is taken from
   there. A call that is dropped (its thread was interrupted, its task cancelled, its event loop
   closed, its generator collected) gives back what its answer has brought, or brings later. It may
   be on its way just then, and who was cancelled may be kept for long, with all that he had.
4. Whoever is dropped may be dropped anywhere: in any thread, in the middle of a step, with any lock
   held. So he only leaves a word. That takes not one instruction of Python (a `Watch` is called by
   the interpreter itself), between two of which the handler of a signal could raise, as it can in
   a `__del__`, where that is swallowed, too.

Places for objects that a pool's machine has told of ahead (rule 19 of `protocols/pool`).

Whoever takes one has room for one object. He fills it, and leaves it as a word for the owner; both
are one step, without a lock. Should he be interrupted between them, or find it too small, he drops
it: then it says by itself that it is given up.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Final
from weakref import ref

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.calls import Ahead, GiveUp, Got, Nack, Withdraw

NOBODYS: Final = 0
"""The token of what there is nothing to settle of."""


class Watch(ref[Any]):
    """Has a word said when what it watches is dropped."""

    __slots__ = ("word",)

    word: Any
    """A message to the machine, or something to call that leaves more."""


class ObjectSlot:
    """Room for one object, as long as somebody has this; with a word in it, it is one itself."""

    __slots__ = ("__weakref__", "size", "watch", "word")

    watch: Watch
    """Of this place itself."""
    word: Any

    def __init__(self, size: int) -> None:
        self.size = size


class Words:
    """What is to be said to the machine in the next turn of its owner.

    No lock is taken to leave one. A word is a message whose answer nobody waits for, or an event.
    They are said in the order in which they were left: what was said of an object comes before the
    word that it was dropped.
    """

    __slots__ = ("_line", "_ring", "_watches", "closed", "left")

    def __init__(self, ring: Callable[[], None]) -> None:
        self.left = False
        """Whether this is a child of the process that they belong to."""
        self.closed = False
        """Whether nothing is said any more."""
        self._ring = ring
        self._line: deque[Any] = deque()
        """Words, and watches whose words are to be said."""
        self._watches: dict[int, Watch] = {}

    def __bool__(self) -> bool:
        return bool(self._line)

    def leave(self, word: Any, *, soon: bool = True) -> None:
        """One more; it is said soon, or when there is a turn anyhow."""
        if not (self.left or self.closed):
            self._line.append(word)
            if soon:
                self._ring()

    def ring(self) -> None:
        if self and not (self.left or self.closed):
            self._ring()

    def watch(self, one: Any, word: Any) -> Watch:
        """Has this word said when that one is dropped, in the first turn after it."""
        watch = Watch(one, self._line.append)
        watch.word = word
        self._watches[id(watch)] = watch
        return watch

    def forget(self, watch: Watch) -> None:
        self._watches.pop(id(watch), None)

    def take(self) -> Iterator[Any]:
        while self._line:
            word = self._line.popleft()
            if type(word) is Watch:
                if self._watches.pop(id(word), None) is None:
                    continue
                word = word.word
            elif type(word) is ObjectSlot:
                self.forget(word.watch)
                del word.watch  # or it would still be called
                word = word.word
            if callable(word):
                word()
            else:
                yield word


class PendingCall:
    """A call that was begun, and its answer."""

    __slots__ = (
        "__weakref__",
        "_dropped",
        "_told",
        "_watch",
        "answered",
        "body",
        "number",
        "words",
    )

    def __init__(self, words: Words, told: "Callable[[PendingCall], object] | None" = None) -> None:
        self.answered = False
        self.body: Any = None
        self.number = 0
        self.words = words
        self._told = told
        self._dropped = False
        self._watch: Watch | None = None

    def answer(self, body: Any) -> None:
        if type(body) is Got and body.token != NOBODYS:
            self._watch = self.words.watch(self, Nack(body.token, ()))
        self.body = body
        self.answered = True
        if self._told is not None:
            told, self._told = self._told, None
            told(self)
        if self._dropped:
            self.give_back()

    def take(self) -> Any:
        """What it brought, which is the taker's to look after."""
        body, self.body = self.body, None
        if self._watch is not None:
            self.words.forget(self._watch)
            self._watch = None  # or it would still be called
        return body

    def give_back(self) -> None:
        """Nobody wants what it brought."""
        body = self.body
        if type(body) is Got and body.token != NOBODYS:
            self.words.leave(Nack(body.token, ()))
        self.take()

    def drop(self) -> None:
        """Nobody waits for it any more; takes no lock, and may be done anywhere."""
        self._dropped = True  # first, since an answer may come meanwhile
        if self.body is not None:
            self.give_back()
        elif not self.answered:
            self.words.leave(Withdraw(self.number))


class Calls:
    """Those that have no answer yet. Any thread may begin one; the owner answers them."""

    def __init__(self, name: NodeId) -> None:
        self.count = 0
        self._name = name
        self._numbers = count(1)
        self._open: dict[int, Callable[[Any], None]] = {}
        self._answered: deque[tuple[Callable[[Any], None], Any]] = deque()
        """Those whose answers are not told yet."""

    def begin(self, done: Callable[[Any], None]) -> OperationId:
        operation = self.aside()
        self._open[operation.number] = done
        return operation

    def aside(self) -> OperationId:
        """For one whose answer nobody waits for."""
        self.count = number = next(self._numbers)
        return OperationId(self._name, number)

    def answered(self, operation: OperationId, body: Any) -> None:
        done = self._open.pop(operation.number, None)
        if done is not None:
            self._answered.append((done, body))

    def tell(self) -> None:
        """At the end of a turn: who is woken before takes the interpreter from its owner."""
        while self._answered:
            with suppress(IndexError):  # whoever ends all may be at it as well
                done, body = self._answered.popleft()
                done(body)

    def end(self, error: str, text: str) -> None:
        """All that is open is answered so; whoever has just begun one may do it, too."""
        self.tell()
        while self._open:
            with suppress(KeyError):  # another thread was at it as well
                self._open.popitem()[1](Declined(error, text))


class FreeSlots:
    """Those that nobody has taken.

    >>> words = Words(lambda: None)
    >>> places = FreeSlots(words)
    >>> places.told(Ahead(2, 100))
    >>> places.leave(places.take(70), "what is put")
    >>> places.told(Ahead(0, 0)), list(words.take())
    (None, ['what is put', GiveUp(size=100)])
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._free: deque[ObjectSlot] = deque()

    def __bool__(self) -> bool:
        return bool(self._free)

    def told(self, ahead: Ahead) -> None:
        """In the owner's thread: there are more, or none."""
        for _ in range(ahead.count):
            place = ObjectSlot(ahead.size)
            place.watch = self._words.watch(place, GiveUp(ahead.size))
            self._free.append(place)
        if not ahead.count:
            self._free.clear()

    def take(self, size: int) -> ObjectSlot | None:
        """One for an object of this size, if there is any."""
        try:
            place = self._free.popleft()
        except IndexError:
            return None
        return place if size <= place.size else None

    def leave(self, place: ObjectSlot, word: Any) -> None:
        place.word = word
        self._words.leave(place)
