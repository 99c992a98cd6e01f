"""Endless loads of frames: extremes of each field, and messages that are drawn.

Most of what is sent reads as a message: what does not read ends its connection, and one of those
in a load is enough. What an attacker with all rights may truly do to others is left out.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.errors import MessageError
from snowmelt.protocols.membership.messages import Forget, Leave
from snowmelt.protocols.queue.api.drains import Drain
from snowmelt.wire import codec
from snowmelt.wire.codec import MessageDecoder
from snowmelt.wire.framing import Kind, framed
from snowmelt_world.attack.extremes import each_field, structs, valid
from snowmelt_world.attack.malice import Malice
from snowmelt_world.attack.setting import HONEST_PREFIX, OWN_PREFIX
from snowmelt_world.attack.speaking import Load

LOAD_FRAMES: Final = 64
LOAD_BYTES: Final = 256 << 10
UNREADABLE_EACH: Final = 40
"""In one of so many loads one message does not read."""
EXTREME_PART: Final = 0.5
MUTATED_PART: Final = 0.2
LEGITIMATE: Final = {one.__struct_config__.tag for one in (Forget, Drain, Leave)}
"""An administrator may say these, and others feel it; so may a node that leaves."""
NAMES: Final = (
    f"{OWN_PREFIX}q",
    f"{OWN_PREFIX}ranked",
    f"{OWN_PREFIX}parted",
    f"{OWN_PREFIX}b",
    "",
    "a" * 100,
    "a" * 101,
    "a\0b",
    "a/b",
    "é" * 40,
    "n1",
    "n9",
    f"{OWN_PREFIX}q/1/1",
)


class Forge:
    """Draws messages to one side of the wire."""

    def __init__(self, seed: int, union: Any, decoder: MessageDecoder, *, calls: bool) -> None:
        self.malice = Malice(seed, union, NAMES)
        self.chance = self.malice.chance
        self.calls = calls
        self.read = decoder.decode
        self._pack = msgspec.msgpack.Encoder().encode
        self._structs = [one for one in structs(union) if one.tag not in LEGITIMATE]
        self._sweep = self._swept()
        self._number = 0

    @classmethod
    def of_calls(cls, seed: int) -> "Forge":
        """What a client may ask."""
        return cls(seed, codec.Request, MessageDecoder.for_callers(), calls=True)

    @classmethod
    def of_nodes(cls, seed: int) -> "Forge":
        """What nodes tell each other."""
        return cls(seed, codec.NODE_WORDS, MessageDecoder.for_nodes(), calls=False)

    def heard(self, body: Any) -> None:
        """Takes up what was answered, but honest names."""
        self.malice.heard(_without_honest(body))

    def loads(self) -> Iterator[Load]:
        """Without an end."""
        number = 0
        while True:
            number += 1
            frames, size = list[bytes](), 0
            spoilt = number % UNREADABLE_EACH == 0
            while len(frames) < LOAD_FRAMES and size < LOAD_BYTES:
                frame = self.frame(readable=True)
                frames.append(frame)
                size += len(frame)
            if spoilt:
                frames.append(self.frame(readable=False))
            yield b"".join(frames), len(frames)

    def frame(self, *, readable: bool) -> bytes:
        """One message, which reads as one or not."""
        while True:
            plain = self._drawn()
            if not plain or not isinstance(plain[0], str) or plain[0] in LEGITIMATE:
                continue
            if self.calls:
                self._number += 1
                plain = ["call", self._number, plain]
            try:
                packed = self._pack(plain)
            except OverflowError:  # no bytes can say it
                continue
            if self._reads(packed) is readable:
                return framed(Kind.MESSAGE, packed)

    def _drawn(self) -> Any:
        drawn = self.chance.random()
        if drawn < EXTREME_PART:
            return next(self._sweep)
        plain = self.malice.body()
        return self.malice.mutated(plain) if drawn < EXTREME_PART + MUTATED_PART else plain

    def _reads(self, packed: bytes) -> bool:
        """Whether a node reads it as a message."""
        try:
            self.read(packed)
        except MessageError:
            return False
        return True

    def _swept(self) -> Iterator[Any]:
        """Each extreme of each field of each message, in the order of a draw, again and again."""
        while True:
            some = list(self._structs)
            self.chance.shuffle(some)
            for one in some:
                yield valid(one)
                yield from each_field(one)


def each_valid(union: Any) -> list[Any]:
    """One valid message of each type, as plain values."""
    return [valid(one) for one in structs(union)]


def _without_honest(body: Any) -> Any:
    if isinstance(body, str):
        return "" if body.startswith(HONEST_PREFIX) else body
    if isinstance(body, list | tuple):
        return [_without_honest(one) for one in body]
    return body
