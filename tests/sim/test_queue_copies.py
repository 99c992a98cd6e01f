"""A node's state is a value: a copy of a whole node goes on as the node, and records tell it again.

Something in it that is no value would belong to the node of before: what it changes there is lost.
"""

from copy import deepcopy

import pytest
from test_queue_life import lived

from snowmelt.protocols.host import Host
from snowmelt.protocols.queue.leader import leader
from snowmelt_world.life import Ending
from snowmelt_world.scenario import ETCD_DECIDES, kinds_of

EACH = 97


def copied(patch):
    """Each node goes on as a copy of itself, after so many events of all nodes again and again."""
    handle, events = Host.handle, [0]

    def copies(self, event, now):
        effects = handle(self, event, now)
        events[0] += 1
        if events[0] % EACH == 0:
            self.__dict__.update(deepcopy(self.__dict__, {id(self): self}))
        return effects

    patch.setattr(Host, "handle", copies)
    return events


def same(monkeypatch, seed, coordinator):
    once = lived(seed, kinds_of("queue"), coordinator)
    events = copied(monkeypatch)
    again = lived(seed, kinds_of("queue"), coordinator)
    assert events[0] > EACH
    assert again == once


def told_again(monkeypatch, seed):
    monkeypatch.setattr(leader, "CHECKED_EACH", 1)
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize(("seed", "coordinator"), [(3, "disk"), (1, ETCD_DECIDES)], ids=str)
def test_copies_of_nodes_live_the_same_life(monkeypatch, seed, coordinator):
    same(monkeypatch, seed, coordinator)


def test_records_tell_the_state_after_each_step(monkeypatch):
    told_again(monkeypatch, 3)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(10, 50))
def test_so_it_is_in_many_lives(monkeypatch, seed):
    same(monkeypatch, seed, "disk")
    told_again(monkeypatch, seed)
