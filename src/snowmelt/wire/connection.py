"""One end of a connection, as a machine: bytes in, events out; messages in, bytes out.

It opens no socket, reads no clock and waits for nothing: the loop of a node, the thread of a client
and the engine of a pool drive the very same one. In the smallest form:

    connection = Connection(Dialling(speaker))
    while connection.stage is not Stage.CLOSED:
        stream.sendall(connection.taken())
        for event in connection.receive(stream.recv(65_536)):
            ...

    GREETING --each has shown who it is--> OPEN
    GREETING, OPEN --`Ended`, `close`--> CLOSED

1. Who says what first is the `Side`'s matter (`sides.py`); cluster, name, proof, rights and
   certificate are checked there. While the connection greets, a word has `GREETING_BYTES_MAX` at
   most and nothing else is listened to. No byte beyond the word is looked at before the word is
   understood: what follows it in the same read may be as large as an open connection allows.
2. An event is `ConnectionOpened`, a message, a `ControlFrame`, or `Ended`. They come in the order
   of the bytes, the same however the stream was torn. Each is read from its bytes when it is asked
   for and not before: what is a few bytes on its way may be a hundred in memory.
3. What may not be raises a `SnowmeltError`, after all events before it, and where the next would
   have come; nothing else is ever raised, and no event comes any more. Whoever drives then says it
   by `close`.
4. Two pressures are kept apart, and both are answered by reading no more bytes (`crowded`). What
   the other side has asked and was not answered is counted here, by bytes. What it was sent and
   does not read only the socket knows: whoever has that sets `blocked`. Then answers and calls
   wait in `later`, and no event comes of a client. Of two ends that both have much for the other at
   once one must go on hearing, or each waits for the other to read: so a client goes on hearing its
   node, and two nodes each other. All that nodes tell each other goes on as well, and its owner has
   a limit for it: answers that waited for one who is still heard would have none.
5. A message above the limit is not sent. An answer is declined in its place; any other raises
   `TooLarge`, and the connection lives on.
6. A large answer is said once: the first comes, or the connection ends. A second one, for a client
   that asked again while it was made, would hold up all behind it.
7. `close` says why in a `Goodbye`, as the last word. After it, or the other's, nothing is heard and
   nothing is said.

Nobody asks here whether the other side is still there: sockets do, by keep-alive, and machines by
their own beats. How long a greeting may take, and how slowly one may read, is for whoever has a
clock. Blobs of a pool travel in frames that `runtime.peer` cuts by itself once a link is open, and
only its words (`word`) come by here.
"""

import sys
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from snowmelt.core.errors import FrameError, SnowmeltError, TooLarge
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.wire.codec import MessageDecoder, encode_into
from snowmelt.wire.framing import (
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SMALL,
    VERSION,
    Frame,
    FrameReader,
    Kind,
    framed,
)
from snowmelt.wire.greeting import Goodbye, Role, as_error, goodbye, heard
from snowmelt.wire.sides import ConnectionOpened, Side

CALL_COST: Final = 1_024
"""What a call costs besides its bytes, while it waits for its answer."""
_SAID_MAX: Final = 64
"""So many large answers are known by their numbers (rule 6)."""
_MESSAGE: Final = int(Kind.MESSAGE)
_WAIT: Final = (Answer, Call)
_WORDS: Final = {
    Role.NODE: frozenset({Kind.INQUIRE, Kind.RELOAD}),
    Role.CLIENT: frozenset({Kind.INFORM}),
    Role.PEER: frozenset({Kind.RELEASE, Kind.KEEP}),
}
"""By who hears it, what may be said besides messages."""


def _reads(mine: Role, theirs: Role) -> MessageDecoder:
    """What one side may be sent by another."""
    if mine is Role.PEER:
        return MessageDecoder.for_peers()
    if mine is Role.CLIENT:
        return MessageDecoder.for_clients()
    return MessageDecoder.for_nodes() if theirs is Role.NODE else MessageDecoder.for_callers()


class Stage(Enum):
    GREETING = "greeting"
    OPEN = "open"
    CLOSED = "closed"


class ControlFrame(msgspec.Struct, frozen=True):
    """A frame that is no message, and may be said in an open connection."""

    kind: Kind
    payload: bytes


class Ended(msgspec.Struct, frozen=True):
    error: SnowmeltError


SIGNALS: Final = frozenset({ConnectionOpened, ControlFrame, Ended})
"""The events that are no message."""
Heard: TypeAlias = ConnectionOpened | ControlFrame | Ended | Any


class Connection:
    """One end.

    >>> from snowmelt.core.names import NodeId
    >>> from snowmelt.protocols.echo import Echo
    >>> from snowmelt.wire.greeting import Gate, Speaker
    >>> from snowmelt.wire.sides import Dialling, Listening
    >>> other = Speaker(cluster="snow", name=NodeId("n2"), role=Role.NODE)
    >>> dials = Connection(Dialling(other))
    >>> node = Connection(Listening(Gate("snow"), NodeId("n1"), Role.NODE, 1 << 20))
    >>> list(node.receive(dials.taken()))
    []
    >>> [opened.name for opened in dials.receive(node.taken())]
    ['n1']
    >>> dials.send(Call(1, Echo(b"hey")))
    >>> opened, call = node.receive(dials.taken())
    >>> opened.name, call
    ('n2', Call(number=1, body=Echo(body=b'hey')))
    """

    __slots__ = (
        "_failure",
        "_hears_on",
        "_in_flight",
        "_news",
        "_reader",
        "_said",
        "_side",
        "_waits",
        "_words",
        "blocked",
        "decode",
        "frame_max",
        "frames",
        "frames_in",
        "frames_out",
        "in_flight_bytes",
        "in_flight_max",
        "later",
        "out",
        "stage",
    )

    def __init__(
        self, side: Side, frame_max: int = FRAME_BYTES_MAX, in_flight_max: int = sys.maxsize
    ) -> None:
        self.stage = Stage.GREETING
        self.out = bytearray(side.first)
        """What is to be sent."""
        self.frames: deque[Frame] = deque()
        """What has come and was not asked for yet."""
        self.later: deque[Any] = deque()
        """What waits until the other side reads again."""
        self.blocked = False
        """Whether the other side does not read what it is sent; set by whoever has the socket."""
        self.in_flight_bytes = 0
        """What it has asked and was not answered costs so much."""
        self.in_flight_max = in_flight_max
        self.frame_max = frame_max
        self.decode = MessageDecoder.for_clients().decode
        """Reads what the other side may send, once it has shown who it is."""
        self.frames_in = 0
        self.frames_out = 1 if side.first else 0
        self._in_flight: dict[int, int] = {}
        self._said: dict[int, None] = {}  # the newest large answers
        self._reader = FrameReader(GREETING_BYTES_MAX)
        self._side: Side | None = side
        self._hears_on = False  # though blocked: the other side is no client
        self._waits = True  # while blocked: one of the two is a client
        self._words = _WORDS[side.role]
        self._news: ConnectionOpened | Ended | None = None  # what the greeting came to, untold yet
        self._failure: SnowmeltError | None = None  # raised when all before it is told

    @property
    def hears(self) -> bool:
        """Whether what has come is told: of a client, as long as it reads and asks not too much."""
        return self._hears_on or not (self.blocked or self.in_flight_bytes > self.in_flight_max)

    @property
    def crowded(self) -> bool:
        """Whether no more bytes should be read."""
        full = self.in_flight_bytes > self.in_flight_max
        return full or not self.hears or bool(self.frames)

    @property
    def has_news(self) -> bool:
        """Whether `events` would give something, or raise, or there is something to say."""
        return bool(self.frames or self.out or self._news or self._failure)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def awaited(self) -> int:
        """The size of the frame that has begun to come, or of its header."""
        return self._reader.awaited

    @property
    def came(self) -> int:
        """How many frames have come whole: the number of the one that is awaited."""
        return self.frames_in + len(self.frames)

    @property
    def missing(self) -> int:
        """So many bytes may be read so that none is beyond the word that is awaited."""
        return self._reader.missing

    # --- in ---------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Iterator[Heard]:
        """Takes in what came, and gives the events that it makes whole. They raise, this does not.

        Whoever stops asking finds the rest in `events`.
        """
        self.take(data)
        return self.events()

    def take(self, data: bytes) -> None:
        """Takes in what came, for `events`."""
        if self._failure is None:
            try:
                if self.stage is Stage.GREETING:
                    data = self._greet(data)
                if data and self.stage is Stage.OPEN:
                    self._reader.cut(data, self.frames)
            except SnowmeltError as error:
                self._failure = error

    def rest(self) -> memoryview | None:
        """Where the rest of a large message may be read to, not copied; then `filled`."""
        return self._reader.rest() if not self.frames and self.stage is Stage.OPEN else None

    def filled(self, size: int) -> Iterator[Heard]:
        """So many bytes were read there: the same as to receive them."""
        self._reader.filled(size, self.frames)
        return self.events()

    def events(self) -> Iterator[Heard]:
        """What has come, one by one, as long as this side `hears`."""
        if self._news is not None:
            news, self._news = self._news, None
            yield news
        frames = self.frames
        try:
            while frames and self.hears:
                kind, payload = frames.popleft()
                self.frames_in += 1
                if kind is not Kind.MESSAGE:
                    yield self.word(kind, bytes(payload))
                    continue
                message = self.decode(payload)
                if type(message) is Call:
                    if message.number in self._said:
                        continue
                    cost = len(payload) + CALL_COST
                    # Asked again under the same number it costs once.
                    self.in_flight_bytes += cost - self._in_flight.get(message.number, 0)
                    self._in_flight[message.number] = cost
                yield message
        except SnowmeltError as error:
            self._failure = error
            frames.clear()
        if self._failure is not None and not frames:
            raise self._failure

    def word(self, kind: Kind, payload: bytes) -> ControlFrame | Ended:
        """A frame of an open connection that is no message. Raises `SnowmeltError`."""
        if kind is Kind.GOODBYE:
            return self._ended(payload)
        if kind not in self._words or (payload and kind is not Kind.INFORM):
            raise FrameError(f"{kind.name} does not stand in an open connection")
        return ControlFrame(kind, payload)

    def _greet(self, data: bytes) -> bytes:
        """The words of the greeting (rule 1); returns what follows them."""
        while data and self.stage is Stage.GREETING:
            missing = self._reader.missing
            piece, data = data[:missing], data[missing:]
            for kind, word in self._reader.feed(piece):  # one at most
                payload = bytes(word)
                self.frames_in += 1
                if kind is Kind.GOODBYE:
                    self._news = self._ended(payload)
                else:
                    self._hear(kind, payload)
        return data

    def _hear(self, kind: Kind, payload: bytes) -> None:
        assert self._side is not None
        answer, opened = self._side.hear(kind, payload)
        if answer:
            self.say(answer)
        if opened is not None:
            self.stage, self._news = Stage.OPEN, opened
            self.decode = _reads(self._side.role, opened.role).decode
            self._hears_on = opened.role is not Role.CLIENT
            self._waits = Role.CLIENT in (self._side.role, opened.role)
            self._reader.admit(self.frame_max)
            self._side = None

    def _ended(self, payload: bytes) -> Ended:
        said = heard(payload, Goodbye)
        self._end()
        return Ended(as_error(said.error, said.text))

    # --- out --------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Adds a message to what is to be sent; raises `TooLarge` (rule 5), and adds nothing."""
        if self.stage is not Stage.OPEN:
            return
        if self.blocked and self._waits and type(message) in _WAIT:
            self.later.append(message)
            return
        if type(message) is Answer:
            self.in_flight_bytes -= self._in_flight.pop(message.number, 0)
            if message.number in self._said:
                return
        out = self.out
        begin = len(out)
        try:
            encode_into(message, out, begin + HEADER_BYTES)
        except BaseException as error:  # what was begun of it is not sent either
            del out[begin:]
            if isinstance(error, OverflowError):
                raise TooLarge("a number of more than 64 bits") from error
            raise
        size = len(out) - begin - HEADER_BYTES
        if size > self.frame_max:
            del out[begin:]
            self._refuse(message, size)
            return
        HEADER.pack_into(out, begin, MAGIC, VERSION, _MESSAGE, 0, size)
        self.frames_out += 1
        if size > SMALL and type(message) is Answer:
            self._said[message.number] = None
            if len(self._said) > _SAID_MAX:
                del self._said[next(iter(self._said))]

    def _refuse(self, message: Any, size: int) -> None:
        error = TooLarge(f"a message of {size} bytes; the limit of a frame is {self.frame_max}")
        if type(message) is not Answer or isinstance(message.body, Declined):
            raise error
        self.send(Answer(message.number, Declined("TooLarge", str(error))))

    def say(self, frame: bytes) -> None:
        """Adds a frame that is made already."""
        self.out += frame
        self.frames_out += 1

    def speak(self, kind: Kind, payload: bytes = b"") -> None:
        if self.stage is Stage.OPEN:
            self.say(framed(kind, payload, self.frame_max))

    def taken(self) -> bytearray:
        """What is to be sent, for whoever sends it now."""
        out, self.out = self.out, bytearray()
        return out

    def close(self, error: SnowmeltError | None = None) -> None:
        """Nothing is heard or said from here, but why."""
        if self.stage is Stage.CLOSED:
            return
        self._end()
        if error is not None:
            self.say(goodbye(error))

    def _end(self) -> None:
        self.stage = Stage.CLOSED
        self.frames.clear()
        self.later.clear()
        self._side = self._failure = None
