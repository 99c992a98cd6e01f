"""The rules of core/node.py about disk and date, kept alike by all who run a machine."""

import asyncio
from time import time_ns

import pytest

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Load, Loaded, Persist, Scan, Started
from snowmelt.core.record import Missing, Record, Write, erase
from snowmelt.protocols.host import Family, Host
from snowmelt.runtime.driver import Driver
from snowmelt.store import Store
from snowmelt_world.clock import DAWN
from snowmelt_world.rounds import Rounds
from snowmelt_world.world import World

NAME = NodeId("n1")
WRITES = tuple(Write(b"~%d" % one, b"1234") for one in range(5))


class Puppet:
    """Does its one thing when it starts, and writes down what comes of it."""

    def __init__(self, effects):
        self.effects, self.events = effects, []

    def handle(self, event, _now):
        self.events.append(event)
        return list(self.effects) if isinstance(event, Started) else []

    def check(self):
        pass


class Deaf:
    """A watcher to whom nothing may happen."""

    def crashed(self, error):
        raise error


def in_the_world(host, enough, _folder):
    world = World(seed=1)
    world.add(NAME, lambda _chance: host)
    world.start(NAME)
    world.run(Instant(SECOND))
    assert enough()


def in_rounds(host, enough, _folder):
    Rounds({NAME: host}).run()
    assert enough()


def under_a_driver(host, enough, folder):
    async def run():
        with Store.open(folder) as store:
            driver = Driver(host, lambda *_: None, Deaf(), store)
            driver.start()
            async with asyncio.timeout(10):
                while not enough():
                    await asyncio.sleep(0.001)
            driver.stop(10)

    asyncio.run(run())


@pytest.fixture(params=[in_the_world, in_rounds, under_a_driver], ids=lambda one: one.__name__)
def events(request, tmp_path):
    """What comes of these effects, by ticket; `Started` under 0."""

    def events(*effects):
        puppet = Puppet(effects)
        family = Family("puppet", puppet, ())
        host = Host(NAME, [family, Family("other", Puppet(effects), ())])
        tickets = {effect.ticket for effect in effects}
        request.param(
            host, lambda: tickets <= {getattr(one, "ticket", 0) for one in puppet.events}, tmp_path
        )
        return {getattr(one, "ticket", 0): one for one in puppet.events}

    return events


def test_reading_sees_what_was_asked_before(events):
    seen = events(
        Persist(1, WRITES),
        Load(2, (b"~0", b"k")),
        Persist(3, (erase(b"~1"),)),
        Scan(4, b"~0", b"~4", 8),
        Scan(5, b"~0", b"~4", 9),
        Scan(6, b"~4", b"~0", 9),
    )
    assert seen[2] == Loaded(2, (Record(b"~0", b"1234"), Missing(b"k")))
    two = Record(b"~0", b"1234"), Record(b"~2", b"1234")
    assert seen[4] == Loaded(4, two)
    assert seen[5] == Loaded(5, (*two, Record(b"~3", b"1234")))
    assert seen[6] == Loaded(6, ())


def test_a_machine_learns_the_date_when_it_starts(events):
    before = time_ns()
    wall = events()[0].wall
    assert wall == DAWN or before <= wall <= time_ns()
