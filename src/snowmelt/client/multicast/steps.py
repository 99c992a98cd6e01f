"""What can be asked of a topic, as steps (`connection.steps`): no socket, no thread, no wait.

1. Calls go to one node, as long as it answers: there a publication keeps its turn. When it is
   silent, or cut off, another is asked, with the same ticket or from the same position.
2. A listener has a node's messages once it asks for those behind them: whatever
   interrupts in between, it is one or the other (`ListenerState`).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from snowmelt.client.baton.steps import ANSWER_SECONDS, UNHURRIED, CurrentNode, new_ticket
from snowmelt.client.connection.session import checked
from snowmelt.client.connection.steps import ProgressNote, Query, Sleep, Steps
from snowmelt.client.queue.bodies import parcel
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import (
    Closed,
    Full,
    OutcomeUnknown,
    SnowmeltError,
    Unavailable,
    Unreachable,
)
from snowmelt.core.instant import SECOND, Duration, Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.multicast import calls
from snowmelt.protocols.multicast.calls import Messages, Position
from snowmelt.protocols.multicast.settings import check_bodies, topic_name
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.shielding import SHIELD

REMEMBERED: Final = 10_000
"""So many tickets are known again."""
OUTAGE: Final = seconds(30)
"""A listener gives up when no node has answered for so long."""
_PAUSE: Final = 0.05
_FAILURES: Final = (OutcomeUnknown, Unavailable, Unreachable)


class Message(msgspec.Struct, frozen=True):
    """What somebody published, and where it stands in the order."""

    body: bytes
    position: Position

    @property
    def value(self) -> Any:
        """What was published: its body, where the topic is heard without a codec."""
        return self.body


class ListenerProgress:
    """One listener's place in the order, and the tickets that it saw.

    >>> from snowmelt.protocols.multicast.calls import Publication
    >>> following = ListenerProgress()
    >>> following.take(Messages((), Position(5, 1)))
    []
    >>> twice = [Publication(Position(5, at), 77, (b"hello",)) for at in (1, 2)]
    >>> following.take(Messages(tuple(twice), Position(5, 3)))
    [Message(body=b'hello', position=Position(era=5, number=1))]
    >>> following.position, following.missed
    (Position(era=5, number=3), 0)
    """

    def __init__(self) -> None:
        self.position: Position | None = None
        """From where to listen on; None until it has begun."""
        self.missed = 0
        """How often it was told that something may be missing."""
        self._seen: OrderedDict[int, None] = OrderedDict()

    @property
    def begun(self) -> bool:
        return self.position is not None

    def take(self, told: Messages) -> list[Message]:
        """What is new in an answer; a ticket that was seen is passed over."""
        if told.next is not None:
            self.position = told.next
        self.missed += told.missed
        messages: list[Message] = []
        for one in told.publications:
            if one.ticket in self._seen:
                continue
            self._remember(one.ticket)
            era, first = one.first.era, one.first.number
            messages += [
                Message(body, Position(era, first + at)) for at, body in enumerate(one.bodies)
            ]
        return messages

    def _remember(self, ticket: int) -> None:
        self._seen[ticket] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)


class CodedMessage(Message, frozen=True):
    """A message of a topic that is heard with a codec."""

    codec: ValueCodec

    @property
    def value(self) -> Any:
        """What was published; raises `CodecError` when the body is not what the codec writes."""
        return self.codec.value(self.body)


class ListenerState:
    """Where one listener stands, and the messages that came and were not looked at yet (rule 2)."""

    def __init__(self, codec: ValueCodec = PLAIN) -> None:
        self.following = ListenerProgress()
        self.came: deque[Message] = deque()
        self._codec = codec

    def take(self, told: calls.Messages) -> None:
        with SHIELD:
            came = self.following.take(told)
            if self._codec is not PLAIN:
                came = [CodedMessage(one.body, one.position, self._codec) for one in came]
            self.came.extend(came)

    def next(self) -> Message:
        """The next of those that came; raises `IndexError` when there is none."""
        message = self.came[0]
        del self.came[0]  # no handler of a signal runs between this and what it is given to
        return message


class TopicSteps:
    """One topic, asked for through the home of a cluster's clients."""

    def __init__(
        self, home: CurrentNode, name: str, tickets: Callable[[], int] = new_ticket
    ) -> None:
        self.name = topic_name(name)
        self._home = home
        self._tickets = tickets

    def publish(self, body: Buffer, timeout: float) -> Steps[calls.Position]:
        """Publishes one message; its position, once every node has it."""
        bodies = (bytes(parcel(body).blob),)
        return (yield from self._publish(bodies, _end(timeout)))

    def publish_many(self, bodies: Iterable[Buffer], timeout: float) -> Steps[list[calls.Position]]:
        """Publishes messages in order, in as few calls as they fit into; their positions."""
        positions: list[calls.Position] = []
        with ProgressNote("the first {} were published", 0) as so_far:
            for call in _calls(bodies):
                so_far.asked = True
                first = yield from self._publish(call, _end(timeout))
                so_far.asked = False
                positions += [
                    calls.Position(first.era, first.number + at) for at in range(len(call))
                ]
                so_far.told = (len(positions),)
        return positions

    def begin(self, listener: ListenerState, timeout: float) -> Steps[None]:
        end = _end(timeout)
        while True:
            yield from self._ask(listener, end)
            if listener.following.begun:
                return
            if not seconds_until(end):
                text = f"no node knew in {timeout:g} s where topic {self.name!r} stands"
                raise Unavailable(text)

    def more(self, listener: ListenerState, end: Instant | None) -> Steps[None]:
        """What comes next; nothing when the time is over without any."""
        while True:
            yield from self._ask(listener, end)
            if listener.came or (end is not None and not seconds_until(end)):
                return

    def _ask(self, listener: ListenerState, end: Instant | None) -> Steps[None]:
        """One answer, of this node or another; raises when none can be had for long."""
        last = later(steady_now(), OUTAGE)
        if end is not None:
            last = min(last, end)
        while True:
            wait = _wait(end)
            try:
                target = yield from self._home.target()
                listen = calls.Listen(self.name, listener.following.position, wait)
                told: calls.Messages = yield self._query(listen, wait, target, UNHURRIED)
            except Closed:
                raise
            except _FAILURES as error:
                if not seconds_until(last):
                    text = f"no node could read topic {self.name!r}: {error}"
                    raise Unreachable(text) from error
                yield from self._other_home()
            else:
                listener.take(told)
                return

    def _publish(self, bodies: tuple[bytes, ...], end: Instant) -> Steps[calls.Position]:
        check_bodies(bodies)
        ticket, size = self._tickets(), sum(map(len, bodies))
        asked = False
        while True:
            wait = _wait(end)
            failure: SnowmeltError | None = None
            try:
                target = yield from self._home.target()
                publish = calls.Publish(self.name, ticket, bodies, wait)
                answer: calls.Published | calls.Underway
                answer = yield self._query(publish, wait, target, UNHURRIED + size)
                asked = True
            except Closed:
                raise
            except _FAILURES as error:
                asked |= type(error) is OutcomeUnknown
                failure = error
                if seconds_until(end):
                    yield from self._other_home()
            except Full as error:
                failure = error
                yield Sleep(_PAUSE)
            else:
                if type(answer) is calls.Published:
                    return answer.first
            if not seconds_until(end):
                raise self._too_late(asked, failure)

    def _query(self, body: object, wait: Duration, target: NodeId, weight: int) -> Query:
        return Query(body, wait / SECOND + ANSWER_SECONDS, target, weight)

    def _other_home(self) -> Steps[None]:
        """Looks for a node that is current, if there is one."""
        yield Sleep(_PAUSE)
        try:
            yield from self._home.find()
        except _FAILURES:
            yield Sleep(_PAUSE)

    def _too_late(self, asked: bool, failure: SnowmeltError | None) -> SnowmeltError:
        if failure is not None and not asked:
            return failure
        why = f" ({failure})" if failure is not None else ""
        text = f"not every node had it in the time given; topic {self.name!r} may yet hear it{why}"
        return OutcomeUnknown(text)


def _end(timeout: float) -> Instant:
    return later(steady_now(), seconds(max(0.0, checked(timeout))))


def _wait(end: Instant | None) -> Duration:
    """How long a node may let one wait."""
    return calls.POLL if end is None else Duration(max(0, min(calls.POLL, end - steady_now())))


def _calls(bodies: Iterable[Buffer]) -> Iterator[tuple[bytes, ...]]:
    """Bodies as they fit into calls.

    >>> [len(call) for call in _calls([b"one"] * 5_000)]
    [4096, 904]
    """
    if isinstance(bodies, str | bytes | bytearray | memoryview):
        raise TypeError(f"publish_many takes several bodies, not one {type(bodies).__name__}")
    call: list[bytes] = []
    size = 0
    for body in bodies:
        data = bytes(parcel(body).blob)
        if call and (len(call) == calls.CALL_BODIES_MAX or size + len(data) > calls.CALL_BYTES_MAX):
            yield tuple(call)
            call, size = [], 0
        call.append(data)
        size += len(data)
    if call:
        yield tuple(call)
