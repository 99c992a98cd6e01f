"""The loop over a pool's objects: asks ahead, and tells producers what is done without waiting."""

from collections import deque
from collections.abc import Generator
from typing import Any

from snowmelt.client.objects import Object, only
from snowmelt.client.parts import Part
from snowmelt.client.pool_steps import BYTES_MAX, patience
from snowmelt.client.session import TIMEOUT
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt.protocols.pool.calls import Get, Got, Nack
from snowmelt.runtime.peer.engine import Asked


def consume(part: Part, prefetch: int, timeout: float | None) -> Generator[Object, None, None]:
    """Objects one by one; see `Pool.consume`."""
    engine = part.engine
    wait = TIMEOUT if timeout is None else timeout
    get = Get(1, BYTES_MAX, patience(wait))
    asked: deque[Asked] = deque()
    try:
        while True:
            while len(asked) <= prefetch:
                asked.append(engine.begin(get))
            try:
                got = engine.finish(asked.popleft(), wait)
            except Empty:
                if timeout is None:
                    continue
                return
            held = only(part, got)
            try:
                yield held
            except BaseException:
                _give_back(held)
                raise
            if held.open:
                engine.submit(held.close(), ignored)
    finally:
        for one in asked:
            came = engine.abandon(one)
            if isinstance(came, Got) and came.token:
                engine.submit(Nack(came.token, ()), ignored)


def ignored(_: Any) -> None:
    """What the producer answers changes nothing for a loop that went on; the machine counts it."""


def _give_back(held: Object) -> None:
    if held.open:
        try:
            held.nack()
        except SnowmeltError:
            return  # its lease ends by itself
