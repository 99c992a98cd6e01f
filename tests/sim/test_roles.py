"""Lives with the door's table of roles: what nodes really say to each other is theirs to say."""

from collections import Counter

import pytest

from snowmelt.core.node import Announce, Received
from snowmelt.protocols.host import Host
from snowmelt.protocols.membership import View
from snowmelt.protocols.queue import QueueNode
from snowmelt.wire.roles import LINES, RoleCheck
from snowmelt_world.families import family
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import DISK, ETCD_DECIDES, drawn, kinds_of
from wide import wide

SHARE_MAX = 0.01


class Heard:
    """What came to all nodes, and what was not for who said it."""

    def __init__(self, coordinator):
        self.on_disk = coordinator == DISK
        self.came, self.refused = Counter(), Counter()

    def watch(self, monkeypatch):
        handled, heard = Host.handle, self

        def handle(self, event, now):
            ground = self.__dict__.setdefault("ground", heard.ground(self))
            if type(event) is Received and type(event.message) in LINES:
                kind = type(event.message).__name__
                heard.came[kind] += 1
                if ground.wrong(event.source, event.message):
                    if event.source in ground.members:  # else a view is on its way
                        heard.refused[kind] += 1
                    return []
            effects = handled(self, event, now)
            for one in effects:
                if type(one) is Announce and type(one.fact) is View:
                    view = one.fact
                    ground.viewed(frozenset(one.id for one in view.members), view.coordinator)
            return effects

        monkeypatch.setattr(Host, "handle", handle)

    def ground(self, host):
        homes = [one.home_of for one in host._machines if isinstance(one, QueueNode)]
        return RoleCheck(homes[0] if homes else lambda *_: None, self.on_disk)


@pytest.mark.parametrize("coordinator", [DISK, ETCD_DECIDES])
@pytest.mark.parametrize("protocol", ["queue", "parted", "baton", "multicast", "membership"])
@pytest.mark.parametrize("seed", [500, *wide(501)])
def test_a_life_goes_on_where_only_who_may_is_heard(protocol, coordinator, seed, monkeypatch):
    heard = Heard(coordinator)
    heard.watch(monkeypatch)
    scenario = drawn(protocol, seed, kinds_of(protocol), coordinator=coordinator)
    report = live(scenario, family(protocol))
    assert report.ending is Ending.SETTLED, report.sentence
    print(protocol, coordinator, heard.refused, heard.came.total())


@pytest.mark.parametrize("coordinator", [DISK, ETCD_DECIDES])
@pytest.mark.parametrize("protocol", ["queue", "parted", "baton"])
def test_in_a_calm_life_hardly_anything_is_said_that_is_not_its_speakers(
    protocol, coordinator, monkeypatch
):
    heard = Heard(coordinator)
    heard.watch(monkeypatch)
    report = live(drawn(protocol, 510, (), coordinator=coordinator), family(protocol))
    assert report.ending is Ending.SETTLED, report.sentence
    print(protocol, coordinator, heard.refused, heard.came.total())
    assert heard.refused.total() <= SHARE_MAX * heard.came.total(), heard.refused
