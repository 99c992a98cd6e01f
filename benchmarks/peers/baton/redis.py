"""Redis: one key that one has, and three ways to wait for it.

`redis-lock` is redis-py's `Lock` as it comes: who finds it taken looks again after 0.1 s;
`redis-lock-1ms` looks again after 1 ms. `redis-signal` is what other packages do to wait without
looking: a release leaves one word in a list, for which the waiters block, so just one of them wakes
and tries again. `redis-token` is the least that Redis can do: the lock is the word in the list
itself. Redis gives it to who has waited longest, but it is lost with one who dies, and nobody can
take it from one who has it for too long.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

from benchmarks.peers.baton.clients import Hold, LockPeer, Messages
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.servers.redis import Place, Redis

LEASE_SECONDS: Final = 10
MISSED_SECONDS: Final = 1.0
"""How long a waiter blocks for a word that may have been lost with the one it woke."""
GIVE_UP: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('LPUSH', KEYS[2], '1')
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
"""


def lock(name: str, way: str, *values: float) -> Peer:
    import_module("redis")  # its client, which must be here
    client = partial(WAYS[way], *values)
    return LockPeer(
        name=name,
        promise=WAYS[way].promise,
        service=Redis("never"),
        above=way == "Polling",
        connect=lambda service: partial(client, place=service.address),
        messages=messages,
    )


def messages(service: Redis) -> Messages:
    """One read is one request, since nobody sends a second before the first is answered."""
    with service.address.connect() as base:
        said = base.info("stats")
    return Messages(said["total_reads_processed"] + said["total_writes_processed"])


class Polling:
    """redis-py's own."""

    promise = "who looks at the right moment; ends with its lease; no disk"

    def __init__(self, sleep: float, number: int, place: Place) -> None:
        del number
        self.sleep = sleep
        self.base = connected(place)

    def waiter(self, lock: str) -> Hold:
        return partial(
            self.base.lock,
            lock,
            timeout=LEASE_SECONDS,
            sleep=self.sleep,
            blocking_timeout=WAIT_SECONDS,
        )

    def close(self) -> None:
        self.base.close()


class Signal:
    """A key with a lease, and a list that tells one waiter that it is free."""

    promise = "who is woken, or comes just then; ends with its lease; no disk"

    def __init__(self, number: int, place: Place) -> None:
        del number
        self.base = connected(place)
        self.give_up: Callable[..., Any] = self.base.register_script(GIVE_UP)

    def waiter(self, lock: str) -> Hold:
        return partial(self.hold, lock, uuid4().hex)

    @contextmanager
    def hold(self, lock: str, me: str) -> Iterator[None]:
        end = time.monotonic() + WAIT_SECONDS
        while not self.base.set(lock, me, nx=True, ex=LEASE_SECONDS):
            if time.monotonic() > end:
                raise TimeoutError(f"{lock} was not free for {WAIT_SECONDS:g} s")
            self.base.blpop([f"{lock}:free"], MISSED_SECONDS)
        yield
        self.give_up(keys=[lock, f"{lock}:free"], args=[me, LEASE_SECONDS])

    def close(self) -> None:
        self.base.close()


class Token:
    """A list with one word in it, or none."""

    promise = "who has waited longest; never ends, if its holder dies; no disk"

    def __init__(self, number: int, place: Place) -> None:
        self.founder = number == 0
        self.base = connected(place)

    def waiter(self, lock: str) -> Hold:
        if self.founder:
            self.founder = False
            self.base.lpush(lock, "1")
        return partial(self.hold, lock)

    @contextmanager
    def hold(self, lock: str) -> Iterator[None]:
        if self.base.blpop([lock], WAIT_SECONDS) is None:
            raise TimeoutError(f"{lock} was not free for {WAIT_SECONDS:g} s")
        yield
        self.base.lpush(lock, "1")

    def close(self) -> None:
        self.base.close()


def connected(place: Place) -> Any:
    base = place.connect(WAIT_SECONDS + 5)
    base.ping()
    return base


WAYS: Final[dict[str, Any]] = {"Polling": Polling, "Signal": Signal, "Token": Token}
