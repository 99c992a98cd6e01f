"""Faults planted into nodes, to see that each is found: `… planted FAULT python -m snowmelt …`.

What follows the fault is the command that would start the node. It runs in this process, and does
something wrong once attackers have said enough to it.
"""

import hmac
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from snowmelt.core.node import Received
from snowmelt.core.users import User
from snowmelt.protocols.calling import Call
from snowmelt.protocols.queue.api.calls import Purge, Put
from snowmelt.runtime.driver import Driver
from snowmelt_world.attack import judging
from snowmelt_world.attack.setting import HONEST_PREFIX

ATTACKERS: Final = ("attack-", "cost-", "role-")
PATIENCE: Final = 100
"""After so many messages of attackers it begins."""
PURGES_EACH: Final = 5
HOARD_BYTES: Final = 64 << 10
HOARD_MOST: Final = 4_000
TURN_SECONDS: Final = 0.25
STARVE_SECONDS: Final = 0.05
NUMBER: Final = 1 << 40
"""Calls of the fault's own have numbers from here on."""


def _dies(count: int, _: Driver, __: Any) -> None:
    if count == PATIENCE:
        os._exit(3)


HOARD: Final[list[bytearray]] = []


def _hoards(count: int, _: Driver, __: Any) -> None:
    if count < HOARD_MOST:
        HOARD.append(bytearray(b"x") * HOARD_BYTES)


def _writes(count: int, _: Driver, __: Any) -> None:
    if count > HOARD_MOST:
        return
    folder = Path(sys.argv[sys.argv.index("--data") + 1])
    with (folder / "hoard").open("ab") as file:
        file.write(b"x" * HOARD_BYTES)


def _dawdles(count: int, _: Driver, __: Any) -> None:
    if count % PATIENCE == 0:
        end = time.thread_time() + TURN_SECONDS
        while time.thread_time() < end:
            pass


def _purges(queue: str) -> Callable[[int, Driver, Any], None]:
    def purge(count: int, driver: Driver, _: Any) -> None:
        if count % PURGES_EACH == 0:
            driver.received("c-planted", Call(NUMBER + count, Purge(queue)))  # type: ignore[arg-type]

    return purge


def _nothing(count: int, _: Driver, __: Any) -> None:
    del count


_OF_ATTACKERS: Final[dict[str, Callable[[int, Driver, Any], None]]] = {
    "dies": _dies,
    "hoards": _hoards,
    "writes": _writes,
    "dawdles": _dawdles,
    "loses": _purges(f"{HONEST_PREFIX}orders"),
    "takes": _purges(f"{HONEST_PREFIX}kept"),
    "starves": _nothing,
    "ignores": _nothing,
    "lets-in": _nothing,
    "heeds-all": _nothing,
}
PLANTS: Final = tuple(_OF_ATTACKERS)
FOUND_AS: Final = {
    "dies": judging.LIVES,
    "hoards": judging.MEMORY,
    "writes": judging.DISK,
    "dawdles": judging.TURNS,
    "loses": judging.ITEMS,
    "takes": judging.OTHERS,
    "starves": judging.RATE,
    "ignores": judging.ANSWERS,
    "lets-in": judging.KEPT_OUT,
    "heeds-all": judging.KEPT_OUT,
}
"""Which property each breaks."""


def plant(name: str) -> None:
    """Changes what runs in this process."""
    original = Driver._step
    count = 0

    def step(self: Any, event: Any, now: Any) -> None:
        nonlocal count
        if type(event) is Received:
            if event.source.partition(".")[2].startswith(ATTACKERS):
                count += 1
                _OF_ATTACKERS[name](count, self, event)
            elif count > PATIENCE and _is_honest_put(event.message):
                if name == "starves":
                    time.sleep(STARVE_SECONDS)
                elif name == "ignores" and "probe" in event.message.body.queue:
                    return
        original(self, event, now)

    Driver._step = step  # type: ignore[method-assign]
    if name == "heeds-all":
        User.may = lambda *_: True  # type: ignore[method-assign]
    if name == "lets-in":
        hmac.compare_digest = lambda *_: True


def _is_honest_put(message: Any) -> bool:
    """One that an honest client asked."""
    body = message.body if type(message) is Call else None
    return type(body) is Put and body.queue.startswith(HONEST_PREFIX)


def main() -> None:
    """Runs the command that follows."""
    name, _, flag, module, *words = sys.argv[1:]
    assert flag == "-m", sys.argv
    plant(name)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
