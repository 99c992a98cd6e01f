"""Who hears what a pool's machine tells besides messages: links, calls, places, and the engine."""

from collections.abc import Callable
from typing import Any

from snowmelt.core.errors import StoreVersion
from snowmelt.core.node import Announce, Halt, Reply
from snowmelt.protocols.pool.calls import Acquaintances, Ahead, Need
from snowmelt.runtime.peer.ahead import FreeSlots
from snowmelt.runtime.peer.asking import Calls
from snowmelt.runtime.peer.links import Links
from snowmelt.runtime.running import EndWatcher


class PoolEffects(EndWatcher):
    def __init__(
        self,
        links: Links,
        calls: Calls,
        places: FreeSlots,
        failed: Callable[[str, str], None],
    ) -> None:
        self._links = links
        self._calls = calls
        self._places = places
        self._failed = failed
        """It must not go on: a name from `core.errors`, and a sentence."""

    def announced(self, effect: Announce) -> None:
        match effect.fact:
            case Ahead():
                self._places.told(effect.fact)
            case Acquaintances():
                self._links.acquaint(effect.fact)
            case Need():
                self._links.needed(effect.fact)

    def replied(self, effect: Reply[Any]) -> None:
        self._calls.answered(effect.operation, effect.message)

    def halted(self, effect: Halt) -> None:
        self._failed(effect.error, effect.reason)

    def crashed(self, error: BaseException) -> None:
        if isinstance(error, StoreVersion):
            self._failed("StoreVersion", str(error))  # it stopped before it touched anything
            return
        self._failed("MachineCrashed", f"this pool's machine raised {error!r}; open it anew")
