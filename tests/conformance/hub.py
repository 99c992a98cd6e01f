"""Many nodes in one process: the same drivers and disks, with no socket between them."""

import asyncio
from collections.abc import Callable
from typing import Any

from snowmelt.core.names import Address, NodeId, address_of

Deliver = Callable[[NodeId, Any], None]


class Hub:
    """Carries messages between the drivers of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._nodes: dict[NodeId, Deliver] = {}
        self._addresses: dict[Address, NodeId] = {}

    def attach(self, node: NodeId, deliver: Deliver, address: Address | None = None) -> None:
        self._nodes[node] = deliver
        if address is not None:
            self._addresses[address] = node

    def detach(self, node: NodeId) -> None:
        """A node is gone; what is sent to it is lost."""
        self._nodes.pop(node, None)

    def sender(self, source: NodeId) -> Deliver:
        def send(target: NodeId, message: Any) -> None:
            address = address_of(target)
            name = target if address is None else self._addresses.get(address)
            self._loop.call_soon(self._deliver, source, name, message)

        return send

    def _deliver(self, source: NodeId, target: NodeId | None, message: Any) -> None:
        deliver = self._nodes.get(target) if target is not None else None
        if deliver is not None:
            deliver(source, message)
