"""The calls of an engine: their answers, and what nobody has taken of these.

1. A call has one answer, told under the engine's lock, in whichever thread has it.
2. What an answer brings is somebody's from then on: of the call itself, until it is taken from
   there. A call that is dropped with its answer in it (its thread was interrupted, its task
   cancelled, its event loop closed, its generator collected) gives back what that brought.
3. Whoever is dropped may be dropped anywhere: in any thread, in the middle of a step, with any lock
   held. So he only leaves a word, which is said in the next turn. That takes not one instruction
   of Python (a `Watch` is called by the interpreter itself), between two of which the handler of a
   signal could raise, as it can in a `__del__`, where that is swallowed, too.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import ref

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.calls import Got, Nack, Withdraw
from snowmelt.runtime.peer.seat import Guest

NOBODYS: Final = 0
"""The token of what there is nothing to settle of."""


class Watch(ref[Any]):
    """Has a word said when what it watches is dropped."""

    __slots__ = ("word",)

    word: Any
    """A message to the machine, or something to call that leaves more."""


class Words:
    """What is to be said to the machine in the next turn, and nobody waits for its answer.

    No lock is taken to leave one.
    """

    __slots__ = ("_ring", "_watches", "closed", "dropped", "left", "left_here")

    def __init__(self, ring: Callable[[], None]) -> None:
        self.left = False
        """Whether this is a child of the process that they belong to."""
        self.closed = False
        """Whether nothing is said any more."""
        self._ring = ring
        self.left_here: deque[Any] = deque()
        """Messages to the machine."""
        self.dropped: deque[Watch] = deque()
        """Those whose words are to be said; whoever is asked in each turn looks at both himself."""
        self._watches: dict[int, Watch] = {}

    def __bool__(self) -> bool:
        return bool(self.left_here or self.dropped)

    def leave(self, message: Any, *, soon: bool = True) -> None:
        """One more; it is said soon, or when there is a turn anyhow."""
        if not (self.left or self.closed):
            self.left_here.append(message)
            if soon:
                self._ring()

    def ring(self) -> None:
        if self and not (self.left or self.closed):
            self._ring()

    def watch(self, one: Any, word: Any) -> Watch:
        """Has this word said when that one is dropped, in the first turn after it."""
        watch = Watch(one, self.dropped.append)
        watch.word = word
        self._watches[id(watch)] = watch
        return watch

    def forget(self, watch: Watch) -> None:
        self._watches.pop(id(watch), None)

    def take(self) -> Iterator[Any]:
        while self:
            if self.dropped:
                watch = self.dropped.popleft()
                if self._watches.pop(id(watch), None) is None:
                    continue
                if not callable(watch.word):
                    yield watch.word
                else:
                    watch.word()
            else:
                yield self.left_here.popleft()


class Asked(Guest):
    """A call that was begun, its answer, and the thread that waits for it, if one does."""

    __slots__ = ("__weakref__", "_told", "_watch", "number", "words")

    def __init__(self, words: Words, told: "Callable[[Asked], None] | None" = None) -> None:
        self._bell = None  # as a guest begins; most are answered at once
        self.answered = self.inside = False
        self.thread = self.number = 0
        self.below = self.body = None
        self.words = words
        self._told = told
        self._watch: Watch | None = None

    def answer(self, body: Any) -> None:
        if type(body) is Got and body.token != NOBODYS:
            self._watch = self.words.watch(self, Nack(body.token, ()))
        self.body = body
        self.answered = True
        if self._bell is not None:
            self._bell.ring()
        if self._told is not None:
            told, self._told = self._told, None
            told(self)

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
        if self.body is not None:
            self.give_back()
        elif not self.answered:
            self.words.leave(Withdraw(self.number))


class Calls:
    def __init__(self, name: NodeId) -> None:
        self.count = 0
        self._name = name
        self._open: dict[int, Callable[[Any], None]] = {}

    def begin(self, done: Callable[[Any], None]) -> OperationId:
        self.count = number = self.count + 1
        self._open[number] = done
        return OperationId(self._name, number)

    def aside(self) -> OperationId:
        """For one whose answer nobody waits for."""
        self.count += 1
        return OperationId(self._name, self.count)

    def drop(self, number: int) -> bool:
        """Nobody waits for this one any more; whether it waited still."""
        return self._open.pop(number, None) is not None

    def answered(self, operation: OperationId, body: Any) -> None:
        done = self._open.pop(operation.number, None)
        if done is not None:
            done(body)

    def end(self, error: str, text: str) -> None:
        calls, self._open = self._open, {}
        for done in calls.values():
            done(Declined(error, text))
