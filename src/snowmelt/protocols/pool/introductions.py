"""What a process asks the cluster's nodes, who only introduce the processes to each other."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import MANY, Label, Number, Real, Whole
from snowmelt.core.instant import Duration, Length
from snowmelt.core.names import Address, NodeName
from snowmelt.core.users import Patterns


class Acquaintance(msgspec.Struct, frozen=True, array_like=True):
    """A producer, as others know it."""

    id: NodeName
    name: Label
    """The name that a person gave it; its id when none was given."""
    address: Address
    rate: Real = 0.0
    """How many objects a second it makes when it is not held up; 0 when not known."""
    leaving: bool = False


class PeerReport(msgspec.Struct, frozen=True, array_like=True):
    """What a process has chosen, and what it has done so far. Nobody acts on it; people read it.

    Whoever takes the difference of two reports of one process knows how it fares now, by that
    process' own clock.
    """

    age: Length = Duration(0)
    """How long it had been in the pool when it said so; 0 when it does not report."""
    buffers: Whole = 0
    max_hops: Whole = 0
    fan_out: Whole = 0
    access: Label = ""
    put: Whole = 0
    put_bytes: Whole = 0
    blocked: Length = Duration(0)
    """How long its puts have waited for room."""
    gets: Whole = 0
    """Those that were answered with objects."""
    got: Whole = 0
    probes: Whole = 0
    """How many producers were asked for what it got."""
    waited: Length = Duration(0)
    using: Length = Duration(0)
    """How long its program had objects, and was not waiting for its only ones."""


class Introduce(msgspec.Struct, frozen=True, tag="pool.introduce", array_like=True):
    """I am in this pool; tell me whom I should know. Said again and again, also when I leave."""

    pool: Label
    address: Address
    name: Label
    produces: bool
    consumes: bool
    leaving: bool = False
    gone: bool = False
    """The last word of a process that has left."""
    rate: Real = 0.0
    stock: Number = 0
    fan_out: Number = 0
    known: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=100_000)] = ()
    """The producers that it knows as a consumer; it is told of the same again where that can be."""
    version: Number = 0
    """Of the newest roster it has; 0 for none."""
    silent: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=1_000)] = ()
    """Nodes that it was sent to and that do not answer: another stands in for them."""
    report: PeerReport = PeerReport()
    taking: Real = 0.0
    """How many objects a second it takes."""


class Introduced(msgspec.Struct, frozen=True, tag="pool.introduced", array_like=True):
    """Who is in the pool. `producers` is None when nothing has changed since that version."""

    version: Whole
    settled: bool
    """False while the node that answers may not have heard of everybody yet."""
    every: Length
    """How often it wants to hear of each."""
    producers: Annotated[tuple[Acquaintance, ...], MANY] | None = None
    known: Annotated[tuple[NodeName, ...], MANY] = ()
    """Those of them that this consumer may probe."""
    taken: Real = 0.0
    """How many objects a second all consumers take together; 0 when that is not known."""


class ListPools(msgspec.Struct, frozen=True, tag="pool.list", array_like=True):
    """Asks a node which pools it introduces for; other nodes introduce for others."""

    only: Patterns = ()
    """Only those that fit one of these; the door says which the user may see. Without: all."""


class PoolStatus(msgspec.Struct, frozen=True, tag="pool.status", array_like=True):
    """One pool, as whoever introduces sees it."""

    name: Label
    producers: Annotated[tuple[Acquaintance, ...], MANY]
    stocks: Annotated[tuple[Whole, ...], MANY]
    """How many objects each producer had when it was last heard of, in their order."""
    consumers: Annotated[tuple[NodeName, ...], MANY]
    made: Annotated[tuple[PeerReport, ...], MANY] = ()
    """Of each producer, in their order; empty when an older node answers."""
    used: Annotated[tuple[PeerReport, ...], MANY] = ()
    """Of each consumer, in their order."""


class Pools(msgspec.Struct, frozen=True, tag="pool.pools", array_like=True):
    """The pools that this node introduces for."""

    pools: Annotated[tuple[PoolStatus, ...], MANY]


class DescribePool(msgspec.Struct, frozen=True, tag="pool.describe", array_like=True):
    """Asks an introducer how one pool is."""

    pool: Label


Request = Introduce | ListPools | DescribePool
Response = Introduced | Pools | PoolStatus

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Request)
