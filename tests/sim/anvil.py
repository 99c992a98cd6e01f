"""A world in which one blow falls: a node crashes at one of its writes, before or after it."""

import msgspec

from snowmelt.core.instant import later, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Persist
from snowmelt_world.disk import Ending
from snowmelt_world.world import World


class Blow(msgspec.Struct, frozen=True):
    """Which node crashes, at which of its writes, and whether that one was done; and for how long
    it is away.
    """

    node: NodeId
    write: int
    done: bool
    away: int = seconds(1)


class Anvil(World):
    """A world in which one blow falls. It counts the writes of every node."""

    def __init__(self, observer, blow=None):
        super().__init__("crashes", observer=observer)
        self.writes = {}
        self.blow = blow

    def _persist(self, name, slot, persist: Persist):
        self.writes[name] = self.writes.get(name, 0) + 1
        blow = self.blow
        if blow is None or (name, self.writes[name]) != (blow.node, blow.write):
            super()._persist(name, slot, persist)
            return
        slot.disk.ask(persist)
        if blow.done:
            slot.disk.flush()
        self.at(self.now, self.stop, name, Ending.POWER)  # after this step's other effects
        self.at(later(self.now, blow.away), self.start, name)


def blows(node, writes, **away):
    return [
        Blow(node, write, done=done, **away)
        for write in range(1, writes + 1)
        for done in (False, True)
    ]


def struck(lived, node, least, every=1, **away):
    """Every blow there is upon one node, or every so many-th, in a scenario that `lived` lives.

    It returns its world, and is given no blow at first.
    """
    writes = lived(None).writes[node]
    assert writes >= least, f"only {writes} writes: the scenario shows little"
    for blow in blows(node, writes, **away)[::every]:
        try:
            lived(blow)
        except Exception as error:
            raise AssertionError(f"{blow}: {error}") from error
