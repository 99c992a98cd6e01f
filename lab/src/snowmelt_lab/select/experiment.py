"""A selection with the machines: `OverlayNode` and `Selecting` in synchronous rounds."""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt_lab.machines.overlay import Ring
from snowmelt_lab.machines.overlay.node import OverlayNode
from snowmelt_lab.machines.overlay.station import RingStation
from snowmelt_lab.machines.select import End, Selecting, Selection
from snowmelt_lab.overlay.arrays import Circle, name
from snowmelt_lab.select.load import Load
from snowmelt_lab.select.options import SelectOptions
from snowmelt_world.rounds import Rounds

ROUNDS_MAX: Final = 200_000


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    value: int | None
    """The priority of what was found."""
    id: int | None
    """Of that element."""
    exact: bool
    end: str
    rank: int | None
    """What was found is the so-manieth smallest; k when it is exact."""
    rounds: int
    """Until the anchor knows it."""
    iterations: int
    """Samples of phase 2."""
    iterations_phase1: int
    misses: int
    """Windows that did not have the rank in them, and were turned round."""
    waves: int
    congestion_max: int
    """The most messages that any node took in one round."""
    message_bits_max: int
    candidates_after_phase1: int
    candidates_left: int
    """When phase 3 began."""


def told(
    load: Load, selection: Selection, rounds: int, waves: int, congestion: int, bits: int
) -> Measured:
    at, done = selection.at, selection.done
    assert done is not None
    value = done.value
    rank = None if value is None else load.rank(value) + 1
    return Measured(
        value=None if value is None else value.priority,
        id=None if value is None else value.id,
        exact=done.end is End.FOUND and rank == selection.k,
        end=done.end.value,
        rank=rank,
        rounds=rounds,
        iterations=at.samples,
        iterations_phase1=at.rankings,
        misses=at.misses,
        waves=waves,
        congestion_max=congestion,
        message_bits_max=bits,
        candidates_after_phase1=at.count if at.after_phase1 is None else at.after_phase1,
        candidates_left=at.count,
    )


class Experiment:
    def __init__(self, options: SelectOptions) -> None:
        names = [name(number) for number in range(options.nodes)]
        ring = Ring(names, options.salt)
        self.load: Final = Load(options, Circle(options.nodes, options.salt))
        plan, held = options.mode.plan(), self.load.of_nodes(options.nodes)
        self.families: Final = [
            Selecting(one, options.salt, elements, options.rank, plan)
            for one, elements in zip(names, held, strict=True)
        ]
        self.nodes: Final = {
            family.me: OverlayNode(family.me, options.salt, family, ring, sync=True)
            for family in self.families
        }
        station = self.nodes[ring.anchor.node].stations[ring.anchor.kind]
        assert isinstance(station, RingStation)
        self._root = station.virtual
        self.rounds: Final = Rounds(dict(self.nodes))

    @property
    def selection(self) -> Selection:
        assert self._root.anchor is not None
        state = self._root.anchor.state
        assert isinstance(state, Selection)
        return state

    def run(self) -> Iterator[int]:
        """Until the anchor knows; tells each wave that is over."""
        waves = 0
        while self.selection.done is None:
            assert self.rounds.rounds < ROUNDS_MAX, f"no end: {self.selection.at}"
            self.rounds.step()
            if self._root.climbing.number > waves:
                waves = self._root.climbing.number
                yield waves

    def measured(self) -> Measured:
        cost = self.rounds.statistics()
        waves = self._root.climbing.number
        return told(self.load, self.selection, cost.rounds, waves, cost.busiest, cost.bits_max)


def run(options: SelectOptions) -> Measured:
    """One selection.

    >>> told = run(SelectOptions(nodes=5, elements=30, k=30))
    >>> told.exact, told.rank
    (True, 30)
    """
    experiment = Experiment(options)
    for _ in experiment.run():
        pass
    return experiment.measured()
