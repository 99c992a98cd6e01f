"""Who has no token: garbage, half words, silence, slow readers, wrong tokens, many connections.

The same at the port of a node's pages, which a supervisor asks whether the node lives.

Each way has a thread of its own, so that all of it is on at once, and no more than `EACH_SECOND`
connections a second of the quick ways: an attacker that is only fast is a matter of the system.
"""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

from snowmelt.core.errors import SnowmeltError
from snowmelt.protocols.calling import Call
from snowmelt.protocols.echo import Echo
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import FRAME_BYTES_MAX, HEADER, MAGIC, VERSION, FrameReader, Kind, framed
from snowmelt.wire.greeting import PROOF_BYTES, Proof, Role, said
from snowmelt.wire.sides import Dialling
from snowmelt_world.attack.setting import AttackSetting, Target
from snowmelt_world.attack.speaking import bare, speaker
from snowmelt_world.attack.tally import Tally

EACH_SECOND: Final = 60.0
SILENT_MOST: Final = 100
"""Connections without a word that one process keeps open at a node."""
HELD_SECONDS: Final = 30.0

Goes = Callable[[], bool]


class Visit(NamedTuple):
    """One turn of one way, at one node."""

    setting: AttackSetting
    target: Target
    chance: Random
    tally: Tally
    held: deque[socket.socket]
    """What this way keeps open."""


def attack(setting: AttackSetting, number: int, tally: Tally, goes_on: Goes) -> None:
    """Does all ways at once."""
    ways = [_garbage, _half, _cut, _guesses, _silent, _drips, _hurried, _pages, _half_pages]
    over = threading.Event()
    threads = [
        threading.Thread(
            target=_repeat,
            args=(way, setting, Random(f"{setting.seed}/{number}/{way.__name__}"), tally, over),
            daemon=True,
        )
        for way in ways
    ]
    for thread in threads:
        thread.start()
    while goes_on():
        time.sleep(0.1)
    over.set()
    for thread in threads:
        thread.join(2.0)


def _repeat(
    way: Callable[[Visit], None],
    setting: AttackSetting,
    chance: Random,
    tally: Tally,
    over: threading.Event,
) -> None:
    """One way, at each node by turns; what it keeps open is closed in the order it was made."""
    held: deque[socket.socket] = deque()
    turn = 0
    while not over.wait(1.0 / EACH_SECOND):
        target = setting.targets[turn % len(setting.targets)]
        turn += 1
        with suppress(OSError, SnowmeltError):
            way(Visit(setting, target, chance, tally, held))
        tally.add("inputs")
        tally.add(way.__name__.strip("_"))
        while len(held) > SILENT_MOST * len(setting.targets):
            held.popleft().close()
    for one in held:
        one.close()


def _garbage(visit: Visit) -> None:
    """Bytes of another protocol, or of none."""
    with bare(visit.target) as stream:
        some = visit.chance.choice(
            (
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + visit.chance.randbytes(200),
                visit.chance.randbytes(visit.chance.choice((1, 8, 9, 1_000, 20_000))),
            )
        )
        stream.sendall(some)
        stream.settimeout(0.05)
        stream.recv(1_000)


def _half(visit: Visit) -> None:
    """A frame is begun, and its rest never comes; or its length is what no frame has."""
    stream = bare(visit.target)
    kind = visit.chance.choice(tuple(Kind))
    length = visit.chance.choice((1, 100, 8 << 10, (8 << 10) + 1, FRAME_BYTES_MAX, 2**32 - 1))
    whole = HEADER.pack(MAGIC, VERSION, kind, 0, length) + visit.chance.randbytes(min(length, 100))
    visit.held.append(stream)
    stream.sendall(whole[: visit.chance.randrange(1, len(whole) + 1)])


def _cut(visit: Visit) -> None:
    """Ends in the middle of its first word, or at once."""
    first = Dialling(speaker(visit.setting, "c-cut", Role.CLIENT)).first
    with bare(visit.target) as stream:
        stream.sendall(first[: visit.chance.randrange(len(first))])


def _guesses(visit: Visit) -> None:
    """A wrong token, as a client and as a node; the node's own proof is not asked about."""
    role = visit.chance.choice((Role.CLIENT, Role.NODE))
    dials = speaker(visit.setting, "c-guess" if role is Role.CLIENT else "n9", role)
    with bare(visit.target) as stream:
        stream.settimeout(0.2)
        stream.sendall(Dialling(dials).first)
        stream.recv(1 << 16)
        stream.sendall(said(Kind.PROVE, Proof(visit.chance.randbytes(PROOF_BYTES), dials.key)))
        stream.sendall(framed(Kind.MESSAGE, encode(Call(1, Echo(b"in")))))
        come = FrameReader().feed(stream.recv(1 << 16))
        if any(kind is Kind.MESSAGE for kind, _ in come):
            visit.tally.add("let in with a wrong token")


def _silent(visit: Visit) -> None:
    """Says nothing, and stays."""
    visit.held.append(bare(visit.target))


def _drips(visit: Visit) -> None:
    """A first word that comes a byte at a time."""
    if len(visit.held) < 20:
        visit.held.append(bare(visit.target))
        return
    first = Dialling(speaker(visit.setting, "c-drip", Role.CLIENT)).first
    stream = visit.chance.choice(tuple(visit.held))
    try:
        stream.sendall(bytes([first[visit.chance.randrange(len(first))]]))
    except OSError:
        visit.held.remove(stream)
        stream.close()


def _hurried(visit: Visit) -> None:
    """Comes and goes, some at once."""
    some = [bare(visit.target) for _ in range(3)]
    for one in some:
        one.close()


def _pages(visit: Visit) -> None:
    """A request that is none, or wants what it may not have; the answer is read, or not."""
    if not visit.target.http:
        return
    chance = visit.chance
    words = (
        ("GET", "HEAD", "POST", "PUT", "", "G" * 3_000),
        ("/", "/do", "/events", "/enter?code=" + "a." * 200, "/item?position=²"),
        ("HTTP/1.1", "HTTP/1.0", "SPDY", ""),
    )
    lines = [
        " ".join(map(chance.choice, words)),
        f"Host: {chance.choice(('localhost', 'evil.example', '[', ''))}",
        f"Content-Length: {chance.choice(('0', '4096', '4097', '-1', '9' * 5_000, '²', ''))}",
        f"Cookie: snowmelt_={chance.randbytes(9)!r}",
        f"Authorization: Bearer {chance.randbytes(9)!r}",
    ]
    with socket.create_connection((visit.target.host, visit.target.http), 3.0) as stream:
        stream.sendall("\r\n".join((*lines, "", "")).encode("latin-1"))
        if chance.random() < 0.5:
            stream.settimeout(0.05)
            stream.recv(1_000)


def _half_pages(visit: Visit) -> None:
    """A request whose head or body never comes."""
    if not visit.target.http:
        return
    whole = b"POST /do HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx"
    stream = socket.create_connection((visit.target.host, visit.target.http), 3.0)
    visit.held.append(stream)
    stream.sendall(whole if visit.chance.random() < 0.5 else whole[:30])
