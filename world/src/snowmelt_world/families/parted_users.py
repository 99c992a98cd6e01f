"""Who has a queue with several partitions made, puts into it, and gets from it.

They speak the calls themselves, each at any node, so that nothing of theirs orders what the queue
must.
"""

from functools import partial
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.client.leases.token import LeaseToken, secret_of
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.interval import Interval, merged
from snowmelt.core.keys import packed
from snowmelt.core.names import OperationId
from snowmelt.core.node import Announced
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.calling import Abandoned
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.partition_names import part_name
from snowmelt_world.families.fifo_actors import Actor, Stage
from snowmelt_world.families.parted_setting import CALL, QUEUE, WAITS, Open, Setting, token_of
from snowmelt_world.judge.one_order import Back, Got, Item

AGAIN: Final = milliseconds(400)
ROOM: Final = seconds(4)
"""The longest that a put waits for room."""
HOLD: Final = seconds(600)
IDLE: Final = seconds(2)
LEAVES: Final = 0.3
"""So many gets are left, where some are."""


class Maker(Actor):
    """Has the queue made."""

    def __init__(self, stage: Stage, name: str, chance: Random, setting: Setting) -> None:
        super().__init__(stage, name, chance)
        self._setting = setting

    def begin(self) -> None:
        self.ask(calls.Open(QUEUE, self._setting.settings), self._made)

    def _made(self, outcome: Outcome[Any], _: Instant) -> None:
        if isinstance(outcome, Succeeded):
            self._setting.made = True
        else:
            self.after(AGAIN, self.begin)


class Putter(Actor):
    """Puts batches, each into some partition, and asks until it is told that they are in."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        chance: Random,
        setting: Setting,
        times: list[Instant],
        *,
        stages: bool,
    ) -> None:
        super().__init__(stage, name, chance)
        self._setting = setting
        self._sequences: dict[int, int] = {}
        self._stages = stages
        self.unfinished = len(times)
        for at in times:
            stage.world.at(at, self._put)

    def _put(self) -> None:
        setting, chance = self._setting, self.chance
        if not setting.made:
            self.after(AGAIN, self._put)
            return
        settings = setting.settings
        part = chance.randrange(settings.partitions)
        sequence = self._sequences[part] = self._sequences.get(part, -1) + 1
        count = chance.choice((1, 1, 2, 5, 30))
        values = [f"v{setting.values + at}" for at in range(count)]
        setting.values += count
        runs: list[calls.PriorityRun] = []
        if settings.priorities > 1:
            ranks = sorted(chance.sample(range(settings.priorities), min(2, count)))
            sizes = (count - 1, 1) if len(ranks) > 1 else (count,)
            runs = [calls.PriorityRun(rank, size) for rank, size in zip(ranks, sizes, strict=True)]
        keys = [chance.randrange(-3, 4) for _ in values] if setting.keyed else [0] * count
        due = milliseconds(chance.randrange(1, 3_000)) if chance.random() < 0.1 else Duration(0)
        batch = Batch.of([one.encode() + b"." * chance.choice((0, 9, 90)) for one in values])
        put = calls.Put(
            part_name(QUEUE, part),
            f"{self.name}-{part}",
            sequence,
            bytes(batch.offsets),
            bytes(batch.blob),
            due=-due,
            runs=tuple(runs),
            keys=packed(keys) if setting.keyed else b"",
            patience=self.some(ROOM) if settings.items_max else Duration(0),
            caller=self.name,
        )
        items = [Item(value, part, self.now, due=due) for value in values]
        if self._stages and not due and chance.random() < 0.5:
            self._stage(replace(put, hold=HOLD), items, keys)
            return
        setting.ledger.items |= {one.value: one for one in items}
        self._say(put, items, keys)

    def _stage(self, put: calls.Put, items: list[Item], keys: list[int]) -> None:
        self.ask(put, partial(self._staged, put, items, keys))

    def _staged(
        self,
        put: calls.Put,
        items: list[Item],
        keys: list[int],
        outcome: Outcome[Any],
        _: Instant,
    ) -> None:
        if not isinstance(outcome, Succeeded):
            self.after(AGAIN, partial(self._stage, put, items, keys))
            return
        for one in items:
            one.asked = self.now
        self._setting.ledger.items |= {one.value: one for one in items}
        ask = calls.PublishStaged(put.queue, put.producer, put.sequence, (outcome.value,))
        self.after(self.some(AGAIN), partial(self._say, ask, items, keys))

    def _say(
        self, put: calls.Put | calls.PublishStaged, items: list[Item], keys: list[int]
    ) -> None:
        self.ask(put, partial(self._told, put, items, keys))

    def _told(
        self,
        put: calls.Put | calls.PublishStaged,
        items: list[Item],
        keys: list[int],
        outcome: Outcome[Any],
        _: Instant,
    ) -> None:
        if not isinstance(outcome, Succeeded):
            if isinstance(outcome, Failed) and not outcome.reason.startswith("Unavailable"):
                bounded = self._setting.settings.items_max > 0
                full = outcome.reason.startswith("Full") and bounded
                assert full or outcome.reason.startswith("DiskFull"), outcome
            if isinstance(put, calls.Put):
                put = replace(put, turn=put.turn + 1)
            self.after(AGAIN, partial(self._say, put, items, keys))
            return
        self.unfinished -= 1
        places = [place for where in outcome.value.where for place in where]
        if not outcome.value.stop:
            return  # where it was is known no more
        for item, place, key in zip(items, places, keys, strict=True):
            item.rank = self._setting.rank(place, key)
            item.told = min(item.told, self.said)


class Getter(Actor):
    """Gets, works, and says of each item what became of it."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        chance: Random,
        setting: Setting,
        leaving: Random | None,
    ) -> None:
        super().__init__(stage, name, chance)
        self._setting = setting
        self._leaving = leaving
        """By which it is drawn which gets it leaves, if any."""
        self._had = ("", -1)
        """An item that it has, and where that stands."""

    def begin(self) -> None:
        setting, chance = self._setting, self.chance
        if not setting.made:
            self.after(AGAIN, self.begin)
            return
        patience = Duration(chance.randrange(WAITS)) if chance.random() < 0.6 else Duration(0)
        if setting.patient and self.now < setting.end:
            patience = Duration(WAITS + patience)
        value, place = self._had if chance.random() < 0.2 else ("", -1)
        get = calls.Get(
            QUEUE,
            chance.choice((1, 1, 3, 10, 100)),
            chance.choice((1 << 20, 1 << 20, 100)),
            Duration(0) if value else patience,
            ahead=chance.random() < 0.3,
            before=place,
        )
        got = Got(self.name, self.now, before=value)
        setting.gets[OperationId(self.name, self._numbers + 1)] = Open(got, items_max=get.items_max)
        self.ask(get, partial(self._told, got), Duration(get.patience + CALL))
        if self._leaving is not None and self._leaving.random() < LEAVES:
            longest = milliseconds(self._leaving.choice((5, 100, 3_000)))
            wait = Duration(self._leaving.randrange(longest))
            self.after(wait, partial(self._leave, self._numbers, got))

    def _leave(self, number: int, got: Got) -> None:
        """If it waits still."""
        if self._open.pop(number, None) is None:
            return
        got.over = got.asked_back = self.now
        self._setting.ledger.gets.append(got)
        self._setting.drops(got)
        get = OperationId(self.name, number)
        for lease in self._setting.gets[get].leases.values():
            for held in lease.held.values():
                held.asked_back = min(held.asked_back, self.now)
        self.stage.world.give(self.name, Announced(Abandoned(get)))
        self.ask(calls.CancelGet(QUEUE, number), partial(self._left, get, got))
        self.after(self.some(IDLE), self.begin)

    def _left(self, get: OperationId, got: Got, outcome: Outcome[Any], _: Instant) -> None:
        if not isinstance(outcome, Succeeded) or self._setting.ledger.faulty:
            return
        got.left = self.said
        for lease in self._setting.gets[get].leases.values():
            for held in lease.held.values():
                held.settled = held.settled or Back(held.asked_back, self.said)

    def _told(self, got: Got, outcome: Outcome[Any], at: Instant) -> None:
        setting = self._setting
        if not isinstance(outcome, Succeeded):
            got.over = at
            setting.ledger.gets.append(got)
            self.after(AGAIN, self.begin)
            return
        answer = outcome.value
        known = setting.gets[OperationId(self.name, self._heard)]
        (got,) = [one for body, one in known.answers if body is answer]
        got.heard = True
        held: list[tuple[int, int, dict[int, str]]] = []
        for one in answer.pieces:
            places = known.leases[token_of(one.part, one.leased)].places
            held.append((one.part, LeaseToken.of(one.leased.token, one.leased.secret), places))
        if not held:
            self.after(self.some(IDLE), self.begin)
            return
        _, _, first = self.chance.choice(held)
        place = self.chance.choice(list(first))
        self._had = first[place], place
        work = Duration(self.chance.choice((0, 1, 1, 30)) * self.some(milliseconds(100)))
        self.after(work, partial(self._settle, got, held))

    def _settle(self, got: Got, held: list[tuple[int, int, dict[int, str]]]) -> None:
        if not held:
            self.begin()
            return
        (part, token, where), *rest = held
        chance, rests = self.chance, self.now >= self._setting.end
        done, back = list(where), list[int]()
        due = Duration(0)
        if not rests and chance.random() < 0.25:
            back = [place for place in where if chance.random() < 0.5]
            done = [place for place in where if place not in back]
            due = milliseconds(chance.randrange(1, 900)) if chance.random() < 0.3 else due
        elif not rests and chance.random() < 0.08:
            self._settle(got, rest)  # its time ends
            return
        for place in back + done:
            lease = got.held[where[place]]
            lease.asked_back = min(lease.asked_back, self.now)
        reason = "it failed" if back and chance.random() < 0.5 else ""
        settle = calls.Settle(
            part_name(QUEUE, part),
            int(token),
            _intervals(done),
            _intervals(back),
            -due,
            reason,
            secret=secret_of(token),
        )
        self._say(settle, got, rest, where)

    def _say(
        self,
        settle: calls.Settle,
        got: Got,
        rest: list[tuple[int, int, dict[int, str]]],
        where: dict[int, str],
    ) -> None:
        self.ask(settle, partial(self._settled, settle, got, rest, where))

    def _settled(
        self,
        settle: calls.Settle,
        got: Got,
        rest: list[tuple[int, int, dict[int, str]]],
        where: dict[int, str],
        outcome: Outcome[Any],
        _: Instant,
    ) -> None:
        if isinstance(outcome, Succeeded):
            for place in [one for part in settle.back for one in part]:
                held = got.held[where[place]]
                held.settled = Back(held.asked_back, self.said, Duration(-settle.due))
            lost = {one for part in outcome.value.lost for one in part}
            for place in [one for part in settle.done for one in part if one not in lost]:
                item = self._setting.ledger.items[where[place]]
                item.acked = min(item.acked, self.said)
        elif settle.done and (settle.back or not _is_lost(outcome)):
            # It may have come to pass; what is done can be asked again.
            again = replace(settle, back=(), due=0, reason="")
            self.after(AGAIN, partial(self._say, again, got, rest, where))
            return
        self._settle(got, rest)


def _is_lost(outcome: Outcome[Any]) -> bool:
    return isinstance(outcome, Failed) and outcome.reason.startswith("LeaseLost")


def _intervals(places: list[int]) -> tuple[Interval, ...]:
    return tuple(merged([Interval(one, one + 1) for one in sorted(places)]))
