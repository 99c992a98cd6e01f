"""The life of a queue with several partitions: who puts, who gets, and what befalls their nodes.

Each node is a whole process, as `runtime/server.py` makes it. Clients speak the calls themselves,
each at any node, so that nothing of theirs orders what the queue must. `judge/one_order.py`
judges it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from snowmelt.client.leases.delivered import places_of
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, merged
from snowmelt.core.keys import packed, unpacked
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Effect, Event, Node, Reply, Send
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.calling import Answer
from snowmelt.protocols.queue import QueueNode, calls
from snowmelt.protocols.queue.limits import Limits
from snowmelt.protocols.queue.parted.gathered import Gathered, Piece
from snowmelt.protocols.queue.parted.names import part_name, part_of
from snowmelt.protocols.queue.parted.words import Given
from snowmelt.protocols.queue.settings import ANY, QueueSettings
from snowmelt.protocols.queue.tails import PRIORITY_BITS
from snowmelt_world.families.fifo_actors import Actor, Listened, Said, Stage
from snowmelt_world.families.fifo_engine import Engine
from snowmelt_world.families.membership import SETTINGS, address
from snowmelt_world.families.queue import process
from snowmelt_world.faults import Crash, Duplication, LostWrites, QuickRestarts, RollingRestart
from snowmelt_world.judge.one_order import NEVER, Back, Got, Held, Item, OneOrder
from snowmelt_world.life import FamilyLife, Tally
from snowmelt_world.planted import Bug, planted
from snowmelt_world.scenario import Scenario
from snowmelt_world.world import World

QUEUE: Final = "log"
AGAIN: Final = milliseconds(400)
CALL: Final = seconds(15)
VAIN: Final = milliseconds(300)
"""So long, and as long as some forty messages travel, a get may wait for what is ready."""
ROOM: Final = seconds(4)
"""The longest that a put waits for room."""
HOLD: Final = seconds(600)
ENDS: Final = (Crash, LostWrites, QuickRestarts, RollingRestart)
"""What may take with it what was told and lingers."""
IDLE: Final = seconds(2)
WAITS: Final = seconds(5)
"""The longest that a get waits for items."""
SHARE: Final = 0.95
"""Of its time a lease holds for certain, however fast its node's clock is."""


class Heard(Listened):
    """A node of which it is noted what its partitions and its doors gave, when they did."""

    def __init__(
        self, node: Node[Any], said: Said, clock: Callable[[], Instant], setting: "Setting"
    ) -> None:
        super().__init__(node, said, clock)
        self._setting = setting

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        effects = super().handle(event, now)
        for effect in effects:
            if type(effect) is not Send:
                continue
            word = effect.message
            if type(word) is Given:
                self._setting.gave(word, self._clock())
            elif type(word) is Answer and type(word.body) is Gathered:
                asked = OperationId(effect.target, word.number)
                self._setting.answered(asked, word.body, self._clock())
        return effects


class Watched(QueueNode):
    """The machine; what its partitions give its own doors is noted, too."""

    def watch(self, noted: Callable[[Given], None]) -> None:
        hears = self._hears[Given]

        def heard(source: NodeId, word: Given) -> None:
            noted(word)
            hears(source, word)

        self._hears[Given] = heard


class Watching(Engine):
    """The queue's machines, watched."""

    def __init__(self, noted: Callable[[Given], None]) -> None:
        self._noted = noted

    def machine(
        self, bug: Bug | None, me: NodeId, chance: Random, limits: Limits, *, on_disk: bool
    ) -> Node[Any]:
        """As it is: no bug is in one part of it."""
        del bug
        node = Watched(me, chance, limits=limits, on_disk=on_disk)
        node.watch(self._noted)
        return node


class Leased(msgspec.Struct):
    """What one partition leased for a get, and which others were left out then."""

    part: int
    away: tuple[int, ...]
    held: dict[str, Held] = {}


class Open(msgspec.Struct):
    """A get, and all answers to it that any door said: each of them was a lease."""

    got: Got
    answers: list[tuple[Gathered, Got]] = []
    leases: dict[int, Leased] = {}
    """By tokens and partitions."""
    items_max: int = 0


class Setting(msgspec.Struct):
    """What those who use the queue know of it."""

    settings: QueueSettings
    ledger: OneOrder
    end: Instant
    patient: bool = False
    """Whether gets wait for long, so that there is always one that waits."""
    made: bool = False
    values: int = 0
    gets: dict[OperationId, Open] = {}

    @property
    def keyed(self) -> bool:
        return self.settings.priorities == ANY

    def rank(self, place: int, key: int) -> tuple[int, int]:
        """Of an item that stands there."""
        return (key, place) if self.keyed else divmod(place, 1 << PRIORITY_BITS)

    def gave(self, word: Given, at: Instant) -> None:
        """A partition gave a piece to a door: that is when the time of its lease began."""
        known, part = self.gets.get(word.operation), part_of(word.queue)
        if known is None or part is None or not word.leased.token:
            return
        token = _token(part, word.leased)
        if token in known.leases:
            return
        until = later(at, Duration(int(word.leased.lease * SHARE)))
        most = known.items_max - sum(
            min(one.until, one.asked_back) > at
            for lease in known.leases.values()
            if lease.part not in word.away and part not in lease.away  # else in vain (rule 13)
            for one in lease.held.values()
        )
        known.leases[token] = Leased(part, word.away)
        held = known.leases[token].held
        for place, key, value, again in self.items(Piece(part, word.leased)):
            item = self.ledger.items.get(value)
            if item is None or item.part != part:
                self.ledger.saw(f"{value} came from partition {part}", value)
                return
            if item.told < NEVER and item.rank != self.rank(place, key):
                self.ledger.saw(f"{value} stands at {place}, and was put elsewhere", value)
            item.rank = self.rank(place, key)
            held[value] = Held(until)
            if len(held) > most:
                self.ledger.saw(f"{value} was given to {known.got.who}, which has enough", value)
            lease = Got(known.got.who, known.got.asked, at, away=word.away, again=again)
            lease.held[value] = held[value]
            self.ledger.leases.setdefault(value, []).append(lease)

    def answered(self, operation: OperationId, answer: Gathered, at: Instant) -> None:
        """A door said so, whether it was heard or not."""
        known = self.gets[operation]
        first = known.got
        got = Got(first.who, first.asked, at, away=answer.away, before=first.before)
        for piece in answer.pieces:
            got.held |= known.leases[_token(piece.part, piece.leased)].held
        for held in got.held.values():
            held.said = min(held.said, at)
        if len(got.held) > known.items_max:
            self.ledger.saw(f"{got.who} was given {len(got.held)} items", got.who)
        known.answers.append((answer, got))
        self.ledger.gets.append(got)

    def items(self, piece: Piece) -> Iterator[tuple[int, int, str, bool]]:
        """Position, key and value of each, and whether somebody had it before, perhaps in vain."""
        for part in piece.leased.parts:
            places = list(places_of(part))
            keys = unpacked(part.keys) if self.keyed else [0] * len(places)
            for place, key, body in zip(places, keys, Batch(part.offsets, part.blob), strict=True):
                yield place, key, bytes(body).decode().rstrip("."), part.reason != ""


def _token(part: int, leased: calls.Leased) -> int:
    return (leased.token << 8) + part


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
        runs: list[calls.Run] = []
        if settings.priorities > 1:
            ranks = sorted(chance.sample(range(settings.priorities), min(2, count)))
            sizes = (count - 1, 1) if len(ranks) > 1 else (count,)
            runs = [calls.Run(rank, size) for rank, size in zip(ranks, sizes, strict=True)]
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
        ask = calls.Publish(put.queue, put.producer, put.sequence, (outcome.value,))
        self.after(self.some(AGAIN), partial(self._say, ask, items, keys))

    def _say(self, put: calls.Put | calls.Publish, items: list[Item], keys: list[int]) -> None:
        self.ask(put, partial(self._told, put, items, keys))

    def _told(
        self,
        put: calls.Put | calls.Publish,
        items: list[Item],
        keys: list[int],
        outcome: Outcome[Any],
        _: Instant,
    ) -> None:
        if not isinstance(outcome, Succeeded):
            if isinstance(outcome, Failed) and not outcome.reason.startswith("Unavailable"):
                full = outcome.reason.startswith("Full") and self._setting.settings.items_max > 0
                assert full, outcome
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

    def __init__(self, stage: Stage, name: str, chance: Random, setting: Setting) -> None:
        super().__init__(stage, name, chance)
        self._setting = setting
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

    def _told(self, got: Got, outcome: Outcome[Any], at: Instant) -> None:
        setting = self._setting
        if not isinstance(outcome, Succeeded):
            got.over = at
            setting.ledger.gets.append(got)
            self.after(AGAIN, self.begin)
            return
        answer = outcome.value
        said = self._setting.gets[OperationId(self.name, self._heard)].answers
        (got,) = [one for body, one in said if body is answer]
        got.heard = True
        held = [
            (
                piece.part,
                piece.leased.token,
                {at: value for at, _, value, _ in setting.items(piece)},
            )
            for piece in answer.pieces
        ]
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
            part_name(QUEUE, part), token, _intervals(done), _intervals(back), -due, reason
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
            for place in [one for part in settle.done for one in part]:
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


class PartedLife(FamilyLife):
    """One to six nodes, and one queue of two, three or eight partitions."""

    name = "parted"

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        nodes = len(scenario.nodes)
        settings = QueueSettings(
            partitions=chance.choice((2, 2, 3, 8)),
            priorities=chance.choice((1, 1, 3, ANY)),
            replicas=min(nodes, chance.choice((1, 2, 3, 3))),
            lease=chance.choice((seconds(1), seconds(4), seconds(20))),
            deliveries_max=1_000_000,
        )
        ways = self._dice("ways")
        bounded, lingers = ways.random() < 0.25, ways.random() < 0.3
        if bounded:
            settings = replace(settings, items_max=settings.partitions * 40)
        if lingers and not any(isinstance(one, ENDS) for one in scenario.faults):
            settings = replace(settings, linger=milliseconds(ways.choice((5, 50, 500))))
        calm = not scenario.faults and not scenario.weather
        style = scenario.style
        vain = Duration(VAIN + 20 * style.delay_min + 40 * style.delay_mean)
        ledger = OneOrder(QUEUE, settings.lease, vain if calm else None)
        patient = self._dice("patient").random() < 0.4
        self._setting = Setting(settings, ledger, scenario.faults_end, patient)

    @property
    def bound(self) -> Duration:
        """How long after the last fault it may take."""
        members = SETTINGS.patience + SETTINGS.lease
        return Duration(members + 3 * CALL + 2 * self._setting.settings.lease + seconds(30))

    def populate(self, world: World) -> None:
        scenario, setting = self._scenario, self._setting
        targets = [contact(address(node)) for node in scenario.nodes]
        duplicates = any(isinstance(one, Duplication) for one in scenario.faults)
        self._stage = Stage(world, targets, duplicates, actors={})
        founder = scenario.nodes[0]
        for node in scenario.nodes:
            self._add(world, node, founder)
            begin = 0 if node == founder else self._chance.randrange(seconds(2))
            world.at(Instant(begin), world.start, node)
        maker = Maker(self._stage, "maker", self._dice("maker"), setting)
        world.at(Instant(seconds(2)), maker.begin)
        self._putters: list[Putter] = []
        stages = self._dice("staging").random() < 0.3
        for number in range(1, self._chance.randint(2, 4) + 1):
            dice = self._dice(f"p{number}")
            times = sorted(
                [Instant(dice.randrange(scenario.faults_end)) for _ in range(dice.randint(3, 16))]
            )
            putter = Putter(self._stage, f"p{number}", dice, setting, times, stages=stages)
            self._putters.append(putter)
        for number in range(1, self._chance.randint(2, 5) + 1):
            getter = Getter(self._stage, f"k{number}", self._dice(f"k{number}"), setting)
            world.at(Instant(seconds(3) + self._chance.randrange(seconds(5))), getter.begin)

    def _add(self, world: World, node: NodeId, founder: NodeId) -> None:
        scenario, stage, setting = self._scenario, self._stage, self._setting

        def build(chance: Random) -> Node[Any]:
            engine = Watching(lambda word: setting.gave(word, world.now))
            whole = process(node, founder, chance, coordinator=scenario.coordinator, engine=engine)
            heard = Heard(whole, stage.said, lambda: world.now, setting)
            return planted(scenario.bug, heard)

        world.add(node, build, address(node))

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        actor = self._stage.actors.get(node)
        if actor is not None:
            actor.answered(effect.operation, effect.message, at)

    @property
    def tally(self) -> Tally:
        return Tally.of([self._setting.ledger])

    def unsettled(self, world: World) -> str:
        """At rest when all that was put is done."""
        if down := self._down(world):
            return down
        for putter in self._putters:
            if putter.unfinished:
                return f"{putter.name} has {putter.unfinished} puts left"
        for item in self._setting.ledger.items.values():
            if item.acked == NEVER:
                return f"{item.value} is not done"
        return ""

    def judge(self, world: World) -> None:
        del world
        self._setting.ledger.judge()
