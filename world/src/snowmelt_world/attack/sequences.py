"""Calls that follow from answers: what no call does by itself.

`fields` bends one call at a time, and a flood hears no answer. Here receipts, leases and positions
are real ones, and are named as no client of the product would name them. Each sequence has a queue
of its own, which is deleted at its end.
"""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final, Self

from snowmelt.core.batch import Batch
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Call, Declined, Elsewhere
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.cron import APART, Cron, Zone
from snowmelt.protocols.queue.api.deletes import Delete
from snowmelt.protocols.queue.api.schedules import Schedule, What
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.wire.codec import MessageDecoder
from snowmelt.wire.framing import FrameReader, Kind
from snowmelt.wire.greeting import Role
from snowmelt_world.attack.setting import OWN_PREFIX, AttackSetting, Target
from snowmelt_world.attack.speaking import greeted, message_frame
from snowmelt_world.attack.tally import Tally

ANSWER_SECONDS: Final = 10.0
OPEN_SECONDS: Final = 10.0
STEPS_MOST: Final = 4
HOUR: Final = seconds(3_600)
PATIENCE: Final = seconds(10)
ITEMS: Final = 16_384
ROUNDS: Final = 4
LARGE: Final = 2 << 20
CHANGES: Final = tuple(range(0, 128 * (APART + 1), APART + 1))
Goes = Callable[[], bool]


class Asker:
    """One client, with a connection to each node that it was sent to."""

    def __init__(self, setting: AttackSetting, name: str, tally: Tally) -> None:
        self._setting = setting
        self._name = name
        self._tally = tally
        self._target = setting.targets[0]
        self._streams: dict[Target, tuple[socket.socket, FrameReader]] = {}
        self._numbers = count(1)
        self._decode = MessageDecoder.for_clients().decode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream, _reader in self._streams.values():
            stream.close()

    def say(self, *bodies: Any, number: int = 0) -> int:
        """Calls one behind the other, all under one number if one is given; the last number."""
        frames = list[bytes]()
        for body in bodies:
            last = number or next(self._numbers)
            frames.append(message_frame(Call(last, body)))
        if self._target not in self._streams:
            stream = greeted(self._setting, self._target, self._name, Role.CLIENT)
            stream.settimeout(ANSWER_SECONDS)
            self._streams[self._target] = stream, FrameReader()
        self._streams[self._target][0].sendall(b"".join(frames))
        self._tally.add("inputs", len(frames))
        return last

    def hear(self, number: int) -> Any:
        """The answer to a call; others are passed over."""
        stream, reader = self._streams[self._target]
        while come := stream.recv(1 << 18):
            for kind, payload in reader.feed(come):
                if kind is Kind.MESSAGE and (answer := self._decode(payload)).number == number:
                    return answer.body
        raise ConnectionResetError("the node closed the connection")

    def ask(self, body: Any) -> Any:
        """What is answered by whoever serves it, if that one is attacked."""
        targets = {one.port: one for one in self._setting.targets}
        for _ in range(STEPS_MOST):
            told = self.hear(self.say(body))
            if type(told) is not Elsewhere or told.address.port not in targets:
                break
            self._target = targets[told.address.port]
        return told

    def opened(self, queue: str, **settings: Any) -> str:
        """Makes a queue, and goes to its leader."""
        end = time.monotonic() + OPEN_SECONDS
        while type(self.ask(calls.Open(queue, QueueSettings(**settings)))) is Declined:
            if time.monotonic() > end:
                raise TimeoutError(f"{queue} was not made")
        self.ask(calls.Describe(queue))
        return queue


def put(queue: str, sequence: int, items: int = 1, size: int = 1, **more: Any) -> calls.Put:
    """So many items of one size."""
    batch = Batch.of([bytes(size)] * items)
    return calls.Put(queue, "p", sequence, bytes(batch.offsets), bytes(batch.blob), **more)


def batches_named_twice(asker: Asker, queue: str) -> None:
    """A step, and a publication, that name a batch twice."""
    asker.opened(queue)
    for number in (1, 2):
        receipt = asker.ask(put(queue, number, hold=HOUR))
        twice = (receipt, receipt)
        asker.ask(calls.PublishStaged(queue, "p", 10 + number, twice))
        asker.ask(calls.Commit(queue, "p", 20 + number, (), (calls.Share(queue, twice, 0),)))


def batches_named_by_many(asker: Asker, queue: str) -> None:
    """Each of thousands of receipts names hundreds of batches."""
    asker.opened(queue)
    last = asker.say(*[put(queue, number, hold=HOUR) for number in range(300)])
    end = asker.hear(last)
    many = (calls.Receipt(end.stream, end.stop - 300, end.stop, 1),) * 4_000
    asker.ask(calls.PublishStaged(queue, "p", 1_000, many))
    asker.ask(calls.Commit(queue, "p", 1_001, (), (calls.Share(queue, many, 0),)))


def more_than_there_is(asker: Asker, queue: str) -> None:
    """A step in a queue with partitions names a batch, and more items than can be numbered."""
    asker.opened(queue, partitions=2)
    part = f"{queue}/1"
    receipt = asker.ask(put(part, 1, hold=HOUR))
    far = calls.Receipt(receipt.stream, 0, 1 << 61, 1)
    asker.ask(calls.Commit(part, "p", 2, (), (calls.Share(part, (receipt, far), 0),)))
    asker.ask(put(part, 3))


def numbers_used_again(asker: Asker, queue: str) -> None:
    """Another call under the number of one that waits: for room, or for data nodes."""
    asker.opened(queue, items_max=1, replicas=1, inline_max=0)
    asker.ask(put(queue, 1))
    for number in range(1_000, 1_020):
        asker.say(
            put(queue, number, size=LARGE, patience=HOUR),
            calls.Describe(queue),
            put(queue, 1),
            calls.Describe(queue),
            number=number,
        )
        asker.ask(calls.Describe(queue))


def delays_in_pieces(asker: Asker, queue: str) -> None:
    """Every other item of very many comes back at one moment."""
    asker.opened(queue)
    due = time.time_ns() + 3 * 10**9
    for number in range(ROUNDS):
        start = asker.ask(put(queue, number, ITEMS)).start
        leased = asker.ask(calls.Get(queue, ITEMS, LARGE, PATIENCE))
        for first in (0, 1):
            some = tuple([Interval(start + at, start + at + 1) for at in range(first, ITEMS, 2)])
            asker.ask(
                calls.Settle(queue, leased.token, back=some, due=due + first, secret=leased.secret)
            )
    while time.time_ns() < due + 10**9:
        asker.ask(calls.Describe(queue))
        time.sleep(0.1)


def schedules_without_a_moment(asker: Asker, queue: str) -> None:
    """A day that never comes, in a zone that changes as often as it may."""
    asker.opened(queue)
    zone = Zone(int(time.time()), CHANGES, tuple([at % 2 for at in range(len(CHANGES))]))
    for at in range(7):
        cron = Cron(1, 1, 1, 1 << 2, 1 << 30, True, True, zone)
        asker.ask(Schedule(queue, f"s{at}", What(b"", "x", cron=cron)))


SEQUENCES: Final = (
    batches_named_twice,
    batches_named_by_many,
    more_than_there_is,
    numbers_used_again,
    delays_in_pieces,
    schedules_without_a_moment,
)


def play(setting: AttackSetting, number: int, tally: Tally, goes: Goes) -> None:
    """One sequence after the other, each by a client of its own."""
    for at in count():
        if not goes():
            return
        sequence, queue = SEQUENCES[at % len(SEQUENCES)], f"{OWN_PREFIX}s{number}.{at}"
        with Asker(setting, f"c-sequence-{number}-{at}", tally) as asker:
            with suppress(OSError, SnowmeltError, AttributeError, ValueError):
                sequence(asker, queue)
            tally.add(sequence.__name__)
            with suppress(OSError, SnowmeltError):
                asker.ask(Delete(queue, lost=True))
