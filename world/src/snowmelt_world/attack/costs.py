"""One client takes as much of one thing as it is given, while honest clients go on beside it.

Each thing is one generator of calls: new names of everything that has names, waits that fill all
places, puts into a full queue, answers that nobody reads. They have an equal part of the time each,
and their order is drawn. What is only fast is here as well: calls of the cheapest and the dearest.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from random import Random
from typing import Any, Final

from snowmelt.core.batch import Batch
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.baton.calls import Acquire
from snowmelt.protocols.calling import Call
from snowmelt.protocols.echo.messages import Echo, Remember
from snowmelt.protocols.multicast.calls import Listen, Publish
from snowmelt.protocols.pool.introductions import Introduce
from snowmelt.protocols.queue.api.calls import Assign, Get, Open, Peek, Put
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import ListConsumers, Overview
from snowmelt.wire.framing import HEADER, MAGIC, VERSION, Kind, framed
from snowmelt.wire.greeting import Role
from snowmelt_world.attack.fields import prepare
from snowmelt_world.attack.sequences import play
from snowmelt_world.attack.setting import OWN_PREFIX, AttackSetting, Target
from snowmelt_world.attack.speaking import Flood, Load, greeted, message_frame, pour
from snowmelt_world.attack.tally import Tally

FRAMES: Final = 32
"""Of one load."""
HOUR: Final = seconds(3_600)
POLL: Final = seconds(5)
QUEUE: Final = f"{OWN_PREFIX}q"
FULL: Final = f"{OWN_PREFIX}full"
LARGE: Final = 1 << 20
SMALL: Final = 1_000
SLOW_READ: Final = 50
"""A slow reader takes so many bytes each twentieth of a second: 1 kB/s."""
SLOW_WRITE: Final = 50_000
"""The same of a slow sender of a large frame: 1 MB/s."""
SLOW_SECONDS: Final = 0.05
READERS: Final = 8
SENDERS: Final = 4
SESSIONS_MOST: Final = 400
"""Greeted connections that one process keeps open."""

Goes = Callable[[], bool]
Calls = Iterator[Any]


def attack(setting: AttackSetting, number: int, tally: Tally, goes_on: Goes) -> None:
    """Each thing has its time."""
    prepare(setting)
    things = list(setting.only or THINGS)
    Random(f"{setting.seed}/{number}").shuffle(things)
    each = setting.seconds / len(things)
    while goes_on():
        for thing in things:
            if goes_on():
                _take(thing, setting, number, tally, _for_a_while(each, goes_on))


def _for_a_while(seconds: float, goes_on: Goes) -> Goes:
    end = time.monotonic() + seconds
    return lambda: goes_on() and time.monotonic() < end


def _take(thing: str, setting: AttackSetting, number: int, tally: Tally, goes: Goes) -> None:
    before = tally.counts["inputs"]
    if thing in WAYS:
        with suppress(OSError, SnowmeltError):
            WAYS[thing](setting, number, tally, goes)
    else:
        name = f"c-cost-{number}"
        pour(
            [Flood(_dial(setting, one, name), _loads(thing), tally) for one in setting.targets],
            goes,
        )
    tally.add(thing, tally.counts["inputs"] - before)


def _dial(setting: AttackSetting, target: Target, name: str) -> Callable[[], socket.socket]:
    return lambda: greeted(setting, target, name, Role.CLIENT)


def _loads(thing: str) -> Iterator[Load]:
    numbers, bodies = count(time.time_ns() // 1_000), CALLS[thing]()
    while True:
        frames = [message_frame(Call(next(numbers), next(bodies))) for _ in range(FRAMES)]
        yield b"".join(frames), FRAMES


def _named() -> Iterator[str]:
    """New names, for ever."""
    begin = time.time_ns() // 1_000_000
    return (f"{OWN_PREFIX}{begin}.{number}" for number in count(1))


def _put(queue: str, producer: str, sequence: int, size: int, **more: Any) -> Put:
    batch = Batch.of([bytes(size)])
    return Put(queue, producer, sequence, bytes(batch.offsets), bytes(batch.blob), **more)


def _queues() -> Calls:
    settings = QueueSettings()
    return (Open(name, settings, True) for name in _named())


def _batons() -> Calls:
    return (Acquire(name, number, Duration(0)) for number, name in enumerate(_named(), 1))


def _places() -> Calls:
    """All places in the line of one baton."""
    return (Acquire(f"{OWN_PREFIX}b", number, POLL) for number in count(1))


def _topics() -> Calls:
    return (Listen(name, None, Duration(0)) for name in _named())


def _publications() -> Calls:
    body = (bytes(SMALL),)
    return (Publish(f"{OWN_PREFIX}t", number, body, Duration(0)) for number in count(1))


def _groups() -> Calls:
    return (Assign(QUEUE, name, HOUR, "reader", 0, 1, SMALL) for name in _named())


def _producers() -> Calls:
    return (_put(QUEUE, name, 1, 1) for name in _named())


def _staged() -> Calls:
    return (_put(QUEUE, name, 1, SMALL, hold=HOUR) for name in _named())


def _waiting_gets() -> Calls:
    return (Get(f"{OWN_PREFIX}empty", 1, SMALL, HOUR) for _ in count())


def _waiting_puts() -> Calls:
    return (_put(FULL, name, 1, 32 * SMALL, patience=HOUR) for name in _named())


def _remembered() -> Calls:
    return (Remember(name, bytes(SMALL)) for name in _named())


def _pools() -> Calls:
    here = Address("127.0.0.1", 9)
    return (Introduce(name, here, name, True, True) for name in _named())


def _peers() -> Calls:
    """Many that claim to be in one pool, each with many acquaintances."""
    here, known = Address("127.0.0.1", 9), tuple(NodeId(f"c-{one}") for one in range(1_000))
    pool = f"{OWN_PREFIX}pool"
    return (Introduce(pool, here, name, True, True, known=known) for name in _named())


def _echoes() -> Calls:
    return (Echo(b"") for _ in count())


def _looks() -> Calls:
    """Calls whose answers are long."""
    some = (
        Overview("", 200),
        ListConsumers(QUEUE, "", 1_000),
        Peek(QUEUE, 100_000, LARGE, 0),
        Get(QUEUE, 100_000, LARGE, Duration(0)),
    )
    return (some[number % len(some)] for number in count())


def _large() -> Calls:
    return (_put(QUEUE, name, 1, LARGE // FRAMES) for name in _named())


CALLS: Final[dict[str, Callable[[], Calls]]] = {
    "queues": _queues,
    "batons": _batons,
    "places in a baton's line": _places,
    "topics": _topics,
    "publications": _publications,
    "groups": _groups,
    "producers": _producers,
    "staged batches": _staged,
    "waiting gets": _waiting_gets,
    "waiting puts": _waiting_puts,
    "things remembered": _remembered,
    "pools": _pools,
    "peers of a pool": _peers,
    "echoes": _echoes,
    "long answers": _looks,
    "large puts": _large,
}


def _sessions(setting: AttackSetting, number: int, tally: Tally, goes: Goes) -> None:
    """Connections, each with a name of its own and a get that waits."""
    held: list[socket.socket] = []
    get = message_frame(Call(1, Get(f"{OWN_PREFIX}empty", 1, SMALL, HOUR)))
    with _closing(held):
        for at in count():
            target = setting.targets[at % len(setting.targets)]
            if not goes():
                break
            if len(held) >= SESSIONS_MOST * len(setting.targets):
                time.sleep(SLOW_SECONDS)
                continue
            try:
                held.append(greeted(setting, target, f"c-cost-{number}-{at}", Role.CLIENT))
                held[-1].sendall(get)
                tally.add("inputs")
            except (OSError, SnowmeltError) as error:
                tally.refused(error)
                time.sleep(SLOW_SECONDS)


def _slow_readers(setting: AttackSetting, number: int, tally: Tally, goes: Goes) -> None:
    """Ask for much, and read 1 kB/s of it."""
    with (
        suppress(OSError, SnowmeltError),
        greeted(setting, setting.targets[0], f"c-cost-{number}-w", Role.CLIENT) as writer,
    ):
        for at in range(8):
            put = Call(at + 1, _put(QUEUE, f"{OWN_PREFIX}w{time.time_ns()}", 1, LARGE))
            writer.sendall(message_frame(put))
        writer.settimeout(1.0)
        writer.recv(SMALL)
    peeks = [message_frame(Call(at, Peek(QUEUE, 100_000, 8 * LARGE, 0))) for at in range(1, 40)]
    asks = b"".join(peeks)
    held = _greeted_some(setting, number, READERS, "r")
    with _closing(held):
        for one in held:
            one.sendall(asks)
            tally.add("inputs", len(peeks))
        _slowly(held, goes, lambda one: one.recv(SLOW_READ))


def _slow_senders(setting: AttackSetting, number: int, tally: Tally, goes: Goes) -> None:
    """Each sends one frame of the largest kind, at 1 MB/s."""
    held = _greeted_some(setting, number, SENDERS, "s")
    begin = HEADER.pack(MAGIC, VERSION, Kind.MESSAGE, 0, 64 << 20)
    piece = bytes(SLOW_WRITE)
    with _closing(held):
        for one in held:
            one.sendall(begin)
            tally.add("inputs")
        _slowly(held, goes, lambda one: one.sendall(piece))


def _inquiries(setting: AttackSetting, number: int, tally: Tally, goes: Goes) -> None:
    """Eight bytes that are answered with thousands."""
    ask = framed(Kind.INQUIRE, b"") * FRAMES
    name = f"c-cost-{number}-i"
    loads = iter(lambda: (ask, FRAMES), None)
    pour([Flood(_dial(setting, one, name), loads, tally) for one in setting.targets], goes)


@contextmanager
def _closing(held: list[socket.socket]) -> Iterator[None]:
    """All that are in it by the end are closed then."""
    try:
        yield
    finally:
        for one in held:
            one.close()


def _slowly(held: list[socket.socket], goes: Goes, does: Callable[[socket.socket], object]) -> None:
    """Does a little with each, again and again."""
    while goes():
        for one in held:
            with suppress(OSError):
                does(one)
        time.sleep(SLOW_SECONDS)


def _greeted_some(setting: AttackSetting, number: int, each: int, word: str) -> list[socket.socket]:
    held = []
    for at, target in enumerate(setting.targets * each):
        with suppress(OSError, SnowmeltError):
            one = greeted(setting, target, f"c-cost-{number}-{word}{at}", Role.CLIENT)
            one.settimeout(0.01)
            held.append(one)
    return held


WAYS: Final[dict[str, Callable[[AttackSetting, int, Tally, Goes], None]]] = {
    "sessions": _sessions,
    "slow readers": _slow_readers,
    "slow senders": _slow_senders,
    "inquiries": _inquiries,
    "sequences": play,
}
THINGS: Final = (*CALLS, *WAYS)
