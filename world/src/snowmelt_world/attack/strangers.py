"""Who has no token: garbage, half words, silence, slow readers, wrong tokens, many connections.

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
from typing import Final

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


def attack(setting: AttackSetting, number: int, tally: Tally, goes_on: Goes) -> None:
    """Does all ways at once."""
    ways = [_garbage, _half, _cut, _guesses, _silent, _drips, _hurried]
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
    way: Callable[[AttackSetting, Target, Random, Tally, deque[socket.socket]], None],
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
            way(setting, target, chance, tally, held)
        tally.add("inputs")
        tally.add(way.__name__.strip("_"))
        while len(held) > SILENT_MOST * len(setting.targets):
            held.popleft().close()
    for one in held:
        one.close()


def _garbage(
    setting: AttackSetting,
    target: Target,
    chance: Random,
    tally: Tally,
    held: deque[socket.socket],
) -> None:
    """Bytes of another protocol, or of none."""
    del setting, held, tally
    with bare(target) as stream:
        some = chance.choice(
            (
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(200),
                chance.randbytes(chance.choice((1, 8, 9, 1_000, 20_000))),
            )
        )
        stream.sendall(some)
        stream.settimeout(0.05)
        stream.recv(1_000)


def _half(
    setting: AttackSetting,
    target: Target,
    chance: Random,
    tally: Tally,
    held: deque[socket.socket],
) -> None:
    """A frame is begun, and its rest never comes; or its length is what no frame has."""
    del setting, tally
    stream = bare(target)
    kind = chance.choice(tuple(Kind))
    length = chance.choice((1, 100, 8 << 10, (8 << 10) + 1, FRAME_BYTES_MAX, 2**32 - 1))
    whole = HEADER.pack(MAGIC, VERSION, kind, 0, length) + chance.randbytes(min(length, 100))
    held.append(stream)
    stream.sendall(whole[: chance.randrange(1, len(whole) + 1)])


def _cut(
    setting: AttackSetting,
    target: Target,
    chance: Random,
    tally: Tally,
    held: deque[socket.socket],
) -> None:
    """Ends in the middle of its first word, or at once."""
    del tally, held
    first = Dialling(speaker(setting, "c-cut", Role.CLIENT)).first
    with bare(target) as stream:
        stream.sendall(first[: chance.randrange(len(first))])


def _guesses(
    setting: AttackSetting,
    target: Target,
    chance: Random,
    tally: Tally,
    held: deque[socket.socket],
) -> None:
    """A wrong token, as a client and as a node; the node's own proof is not asked about."""
    del held
    role = chance.choice((Role.CLIENT, Role.NODE))
    dials = speaker(setting, "c-guess" if role is Role.CLIENT else "n9", role)
    with bare(target) as stream:
        stream.settimeout(0.2)
        stream.sendall(Dialling(dials).first)
        stream.recv(1 << 16)
        stream.sendall(said(Kind.PROVE, Proof(chance.randbytes(PROOF_BYTES), dials.key)))
        stream.sendall(framed(Kind.MESSAGE, encode(Call(1, Echo(b"in")))))
        come = FrameReader().feed(stream.recv(1 << 16))
        if any(kind is Kind.MESSAGE for kind, _ in come):
            tally.add("let in with a wrong token")


def _silent(
    setting: AttackSetting,
    target: Target,
    chance: Random,
    tally: Tally,
    held: deque[socket.socket],
) -> None:
    """Says nothing, and stays."""
    del setting, chance, tally
    held.append(bare(target))


def _drips(
    setting: AttackSetting,
    target: Target,
    chance: Random,
    tally: Tally,
    held: deque[socket.socket],
) -> None:
    """A first word that comes a byte at a time."""
    del tally
    if len(held) < 20:
        held.append(bare(target))
        return
    first = Dialling(speaker(setting, "c-drip", Role.CLIENT)).first
    stream = chance.choice(tuple(held))
    try:
        stream.sendall(bytes([first[chance.randrange(len(first))]]))
    except OSError:
        held.remove(stream)
        stream.close()


def _hurried(
    setting: AttackSetting,
    target: Target,
    chance: Random,
    tally: Tally,
    held: deque[socket.socket],
) -> None:
    """Comes and goes, some at once."""
    del setting, chance, tally, held
    some = [bare(target) for _ in range(3)]
    for one in some:
        one.close()
