"""Whether a node is severed: rule 27 of membership, as far as sockets can tell.

A process that is killed leaves no word, but its system ends its connections, and refuses new ones.
Where a connection with a node has ended, its address is dialled a few times, a moment apart: a
process that dies may listen for longer than it is connected. When it is refused twice in a row, and
no other connection with that node is left, it is told. Whoever stops in order is out of the view by
then; whoever is only slow, or behind a network that is silent, refuses nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from snowmelt.core.names import Address, NodeId

APART_SECONDS: Final = 0.03
DIALS: Final = 10
DIAL_SECONDS: Final = 1.0


class SlowClientCutoff:
    def __init__(
        self,
        addresses: Callable[[], Mapping[NodeId, Address]],
        connected: Callable[[], set[NodeId]],
        tell: Callable[[NodeId], None],
    ) -> None:
        self._addresses = addresses
        self._connected = connected
        self._tell = tell
        self._looks: dict[NodeId, asyncio.Task[None]] = {}
        self._stopped = False

    def lost(self, node: NodeId) -> None:
        if node in self._addresses() and not self._stopped:
            before = self._looks.pop(node, None)
            if before is not None:  # with the last connection it begins anew
                before.cancel()
            self._looks[node] = asyncio.get_running_loop().create_task(self._look(node))

    def stop(self) -> None:
        """Looks after nobody, and tells nothing more: this node ends its connections itself."""
        self._stopped = True
        for look in self._looks.values():
            look.cancel()

    async def _look(self, node: NodeId) -> None:
        refused = 0
        for _ in range(DIALS):
            refused = refused + 1 if await self._refuses(node) else 0
            if refused == 2:
                break
            await asyncio.sleep(APART_SECONDS)
        if refused == 2 and node not in self._connected():
            self._tell(node)

    async def _refuses(self, node: NodeId) -> bool:
        """Whether nothing listens where it should be; silence says nothing."""
        address = self._addresses().get(node)
        if address is None:
            return False
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, writer = await asyncio.open_connection(address.host, address.port)
        except ConnectionRefusedError:
            return True
        except OSError:  # silence, or no way to that network: TimeoutError is one, too
            return False
        writer.close()
        return False
