"""What a family brings to live on the overlay, and what it owes."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.messages import Wave
from snowmelt_lab.machines.overlay.table import Slot


class Store(msgspec.Struct, frozen=True):
    """A family's wish: put this there."""

    ticket: int
    slot: Slot
    element: Any


class Fetch(msgspec.Struct, frozen=True):
    """A family's wish: get what is put there."""

    ticket: int
    slot: Slot


class Carry(msgspec.Struct, frozen=True):
    """A family's wish: bring this to the family where this point is kept."""

    point: int
    body: Any
    origin: int | None = None
    """A point of this node, when the other is one edge of the de Bruijn graph away from it."""


class Tell(msgspec.Struct, frozen=True):
    """A family's wish: bring this to the family of a node."""

    node: NodeId
    body: Any


Wish = Store | Fetch | Carry | Tell


class Family(Protocol):
    """One node's part of a family: what its operations are, and what is done with answers.

    Batches and grants are values; `initial`, `assign`, `combine` and `decompose` look at nothing
    but their arguments, since they run at whatever node has the anchor or a place in the tree.
    """

    def snapshot(self) -> Any:
        """The operations buffered since the last one, as a batch; None when there are none."""
        ...

    @property
    def ready(self) -> bool:
        """Whether this node's part of a wave may go up (rule 11)."""
        ...

    def granted(self, grant: Any) -> Sequence[Wish]:
        """The answer to the last snapshot, and what is to be done for it."""
        ...

    def taken_back(self) -> None:
        """The last snapshot was not answered: its operations go into the next, in front."""
        ...

    def kept(self, ticket: int) -> None:
        """What was to be stored under this ticket is."""
        ...

    def got(self, ticket: int, element: Any) -> None:
        """What was to be fetched under this ticket has come."""
        ...

    def visited(self, point: int, body: Any) -> Sequence[Wish]:
        """What another's part of the family has brought to a point that is kept here."""
        ...

    def told(self, body: Any) -> Sequence[Wish]:
        """What another's part of the family has for this node."""
        ...

    @property
    def pending(self) -> bool:
        """Whether any operation of this node is without its answer; such a node does not leave."""
        ...

    def initial(self) -> Any:
        """The anchor's state in the beginning."""
        ...

    def assign(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """At the anchor: its new state, and the grant for a batch."""
        ...

    def combine(self, batches: Sequence[Any]) -> Any:
        """One batch for several."""
        ...

    def decompose(self, grant: Any, batches: Sequence[Any]) -> Sequence[Any]:
        """The grant's share of each of several batches."""
        ...


class TableOnly:
    """For a family that has no errands but puts and gets, and holds no wave back."""

    ready: Final = True

    def visited(self, point: int, body: Any) -> Sequence[Wish]:
        raise AssertionError(f"a visit to {point}: {body}")

    def told(self, body: Any) -> Sequence[Wish]:
        raise AssertionError(f"told {body}")


class Waves:
    """Waves as `Climbing` takes them: a family's batches, and the counts beside them."""

    def __init__(self, family: Family) -> None:
        self.family = family

    def combine(self, waves: Sequence[Wave]) -> Wave:
        """Adds up the counts; whoever brings no batch adds none."""
        batches = [wave.batch for wave in waves if wave.batch is not None]
        batch = self.family.combine(batches) if batches else None
        joins, leaves = sum(wave.joins for wave in waves), sum(wave.leaves for wave in waves)
        return Wave(batch, joins, leaves)

    def decompose(self, grant: Any, waves: Sequence[Wave]) -> list[Any]:
        """A share for each that brought a batch, None for the others."""
        batches = [wave.batch for wave in waves if wave.batch is not None]
        shares = iter(self.family.decompose(grant, batches) if batches else ())
        return [None if wave.batch is None else next(shares) for wave in waves]
