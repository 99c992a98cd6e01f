"""A process' parts in pools: each a machine with what runs it; who made them ends them."""

import threading
from contextlib import suppress
from random import Random
from typing import Any, Final, Unpack
from weakref import WeakSet

import msgspec

from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.open_loops import end_loops
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.url import ClusterURL
from snowmelt.client.pool import steps as pool_steps
from snowmelt.client.pool.options import PoolOptions, listening, pool_settings, spill_folder
from snowmelt.core.errors import Closed, DataLost, SnowmeltError
from snowmelt.core.instant import later, seconds
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.pool.calls import CLOSED, PoolMembers, Stop
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.peer import PoolPeer
from snowmelt.protocols.pool.settings import Delivery, pool_name
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.peer import Engine, PeerConfig
from snowmelt.runtime.peer.engine_thread import CLOSING
from snowmelt.runtime.peer.limits import PeerLimits
from snowmelt.store import Store
from snowmelt.wire.greeting import made_of, new_key

USUAL: Final = PeerLimits()


class OpenPool(msgspec.Struct, frozen=True):
    """One process' part in one pool: what runs it, and how it was asked for."""

    name: str
    engine: Engine
    store: Store | None
    once: bool
    """Whether it asks for what it gets at most once."""
    machine: PoolPeer | None = None
    alone: bool = False
    """Whether nobody else can ever come into this pool."""
    handles: WeakSet[Any] = msgspec.field(default_factory=WeakSet)
    """Those that a program has of it and has not closed; the last one closes the part."""

    @property
    def me(self) -> NodeId:
        return self.engine.config.name

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        del target, weight
        return self.engine.call(body, timeout)

    def leave(self, timeout: float) -> None:
        """Begins to leave in order, and does not wait."""
        if not self.engine.closed:
            end_loops(self)
            stop = Stop(pool_steps.patience(0.0 if self.alone else timeout))
            self.engine.submit(stop, lambda _: None)

    def close(self, timeout: float, closing: float = CLOSING) -> None:
        """Leaves in order; raises `DataLost` when nobody took what is left.

        What is queued by then has so much time to leave.
        """
        if self.engine.closed:
            self.engine.close(closing)  # somebody was interrupted while it did
            return
        end_loops(self)
        if self.alone:
            timeout = 0.0  # there is nobody to wait for
        try:
            left = self.engine.leave(Stop(pool_steps.patience(timeout)), timeout, closing).left
        except SnowmeltError:  # else it was interrupted, and goes on leaving
            self.engine.close(closing)
            raise
        finally:
            if self.machine is not None and self.engine.ended:
                vars(self.machine).clear()  # it knows itself in circles, and would stay in memory
        if left and self.store is None:
            what = "object" if left == 1 else "objects"
            how = f"neither taken over nor acknowledged in {timeout:g} s"
            raise DataLost(f"{left} {what} of pool {self.name} lost: {how}")


def join(
    name: str,
    place: ClusterURL | None,
    limits: PeerLimits = USUAL,
    **options: Unpack[PoolOptions],
) -> OpenPool:
    """Makes this process part of a pool; without a place it is alone in it."""
    pool, settings = pool_name(name), pool_settings(**options)
    key = new_key()
    me = NodeId(made_of(key))
    contacts = tuple(contact(one) for one in place.addresses) if place else ()
    producer = options.get("producer", "")
    peer = PoolPeer(me, pool, settings, Random(), contacts, producer)
    listen, advertise = listening(options)
    config = PeerConfig(
        name=me,
        key=key,
        contacts=contacts,
        listen=listen,
        advertise=advertise,
        limits=limits,
    )
    if place is not None:
        config = msgspec.structs.replace(
            config, cluster=place.cluster, credentials=place.credentials, known=place.known
        )
    config.checked()  # before anything is made on the disk
    folder = spill_folder(name, options)
    store = Store.open(folder) if folder is not None else None
    try:
        engine = Engine(peer, config, store)
    except BaseException:
        if store is not None:
            store.close()
        raise
    if place is None:
        alone = Acquaintance(me, producer or me, engine.address)
        engine.announce(PoolMembers((alone,), (me,)))
    once = settings.delivery is Delivery.AT_MOST_ONCE
    return OpenPool(name, engine, store, once, peer, alone=place is None)


class OpenPools:
    """The parts that one cluster object has made, for any number of threads.

    1. Each is known from when it is made until it is closed, so that closing the cluster closes it
       too. One that comes while that is done, or after, is refused.
    2. Where all share those of one name (`share`), there is one of each name.
    """

    def __init__(self) -> None:
        self._parts: dict[NodeId, OpenPool] = {}  # each change is one step, so it needs no lock
        self._closed = False
        self._sharing = threading.RLock()  # a handler of signals may ask within another's asking
        self._origin = Origin()

    def join(self, name: str, place: ClusterURL | None, **options: Unpack[PoolOptions]) -> OpenPool:
        self._check()
        part = join(name, place, **options)
        self._parts[part.me] = part
        for one in list(self._parts.values()):
            if one.engine.closed:
                self._parts.pop(one.me, None)
        if self._closed:  # meanwhile, and nobody looks for it any more
            part.close(0.0)
            self._check()
        return part

    def share(self, name: str, **options: Unpack[PoolOptions]) -> OpenPool:
        """The part of this name, made when it is not there; all of them are one process'."""
        self._origin.check("this open folder", "one process has it: connect to a node, to share it")
        wanted = pool_name(name)
        with self._sharing:
            for part in list(self._parts.values()):
                if part.name == wanted and not part.engine.closed:
                    return part
            return self.join(name, None, **options)

    def _check(self) -> None:
        if self._closed:
            raise Closed("this cluster is closed: its pools are, too; connect anew")

    def close(self) -> None:
        """Leaves all pools in order, all at once; raises what went wrong with the last."""
        self._closed = True
        failure: SnowmeltError | None = None
        parts, end = list(self._parts.values()), later(steady_now(), seconds(TIMEOUT))
        last = later(end, seconds(CLOSING))
        for part in parts:
            with suppress(SnowmeltError):  # it is told where the part is closed
                part.leave(TIMEOUT)
        for part in parts:
            try:
                part.close(seconds_until(end), min(CLOSING, seconds_until(last)))
            except SnowmeltError as error:
                failure = error
            self._parts.pop(part.me, None)
        if failure is not None:
            raise failure


class PoolPortBase:
    """What both faces ask through."""

    def __init__(self, part: OpenPool) -> None:
        self._engine = part.engine
        self._closed = False

    def close(self) -> None:
        """Nothing is asked through this one any more."""
        self._closed = True

    def check(self) -> None:
        """Raises `Closed` when it is; the engine says itself whether it is."""
        if self._closed:
            raise Closed(CLOSED)
