"""Noise and mutations of valid streams: an error of ours or a message, never anything else."""

import random
import time
from itertools import chain

import pytest

from snowmelt.core.errors import BadOption, FrameError, HandshakeError, MessageError, SnowmeltError
from snowmelt.core.users import Accounts
from snowmelt.wire.codec import MessageDecoder, encode
from snowmelt.wire.framing import HEADER_BYTES, FrameReader, Kind, framed
from snowmelt.wire.greeting import (
    Answerer,
    Gate,
    Goodbye,
    Hello,
    Proof,
    Role,
    Welcome,
    as_error,
    heard,
    said,
)
from wire.test_codec import HOSTILE, TO_CLIENTS, TO_NODES

GATE = Gate("snow", Accounts.of_token("secret"))
LISTENER = Answerer("n1", Role.NODE, 1 << 20, bytes(16))
GREETINGS = [
    said(Kind.HELLO, Hello("snow", "c-1", Role.CLIENT, bytes(16))),
    said(Kind.HELLO, Hello("snow", "n2", Role.NODE, bytes(16), "shop")),
    said(Kind.WELCOME, Welcome(encode(LISTENER), 4 * (bytes(32),))),
    said(Kind.PROVE, Proof(bytes(32), bytes(16))),
    said(Kind.GOODBYE, Goodbye("AccessDenied", "no")),
]
FRAMES = 3 * GREETINGS + [framed(Kind.MESSAGE, encode(one)) for one in chain(TO_NODES, TO_CLIENTS)]
FRAMES += [framed(Kind.MESSAGE, one) for one in HOSTILE.values() if len(one) < 1000]


def mutated(rng: random.Random) -> bytes:
    """A few valid frames, hurt in a few places; or noise; now and then behind a sound header."""
    if rng.random() < 0.1:
        noise = rng.randbytes(rng.randrange(200))
        return framed(rng.choice(list(Kind)), noise) if rng.random() < 0.7 else noise
    stream = bytearray(b"".join(rng.choices(FRAMES, k=rng.randrange(1, 4))))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(stream))
        match rng.randrange(5):
            case 0:
                stream[at] ^= 1 << rng.randrange(8)
            case 1:
                stream[at] = rng.choice(
                    (0x00, 0x7F, 0x80, 0x91, 0xC1, 0xC6, 0xD9, 0xDD, 0xDF, 0xFF)
                )
            case 2:
                del stream[at : at + rng.randrange(1, 9)]
            case 3:
                stream[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                stream[at:at] = stream[rng.randrange(len(stream)) :][:40]
        if not stream:
            break
    return bytes(stream)


def swallow(stream: bytes, rng: random.Random) -> str:
    """All that is done with a stranger's bytes; the name of what came of it."""
    cut = rng.randrange(len(stream) + 1)
    reader = FrameReader(1 << 20)
    try:
        for kind, payload in chain(reader.feed(stream[:cut]), reader.feed(stream[cut:])):
            assert len(payload) <= len(stream) - HEADER_BYTES
            match kind:
                case Kind.HELLO:
                    GATE.check(heard(payload, Hello), Role.NODE)
                case Kind.WELCOME:
                    heard(heard(payload, Welcome).answerer, Answerer)
                case Kind.PROVE:
                    heard(payload, Proof)
                case Kind.GOODBYE:
                    word = heard(payload, Goodbye)
                    assert isinstance(as_error(word.error, word.text), SnowmeltError)
                case _:
                    codec = rng.choice((MessageDecoder.for_nodes(), MessageDecoder.for_clients()))
                    assert codec.decode(encode(message := codec.decode(payload))) == message
    except SnowmeltError as error:
        return type(error).__name__
    return "held" if reader.held else "whole"


def fuzz(seed: int, count: int) -> dict[str, int]:
    rng = random.Random(seed)
    ends: dict[str, int] = {}
    slowest = 0.0
    for _ in range(count):
        stream = mutated(rng)
        begin = time.process_time()
        end = swallow(stream, rng)
        slowest = max(slowest, time.process_time() - begin)
        ends[end] = ends.get(end, 0) + 1
    assert slowest < 2.0, "an input of a few hundred bytes kept the reader busy"
    return ends


def test_twenty_thousand_hostile_inputs_end_in_an_error_of_ours_or_a_message() -> None:
    ends = fuzz(1, 20_000)
    wanted = {kind.__name__ for kind in (FrameError, MessageError, HandshakeError, BadOption)}
    assert wanted | {"whole", "held", "AccessDenied"} <= set(ends), ends  # it does reach everything


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_million_hostile_inputs_end_in_an_error_of_ours_or_a_message() -> None:
    assert sum(fuzz(2, 1_000_000).values()) == 1_000_000
