"""Which gets of each client had something: asked again when that is over, they have nothing more.

Nobody may be there to take it: the answer was lost, or the question came twice.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.ahead import Unsigned, Whole
from snowmelt.core.names import OperationId

CLIENTS_MAX: Final = 10_000
NUMBERS: Final = 64
"""So many numbers below a client's last are known."""
KIND: Final = b"c"
_MASK: Final = (1 << NUMBERS) - 1
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class Takers:
    """Of one queue: for each client the last of its numbers, and which of those before it.

    >>> takers = Takers({})
    >>> takers.note(OperationId("c-1", 7)); takers.note(OperationId("c-1", 9))
    >>> [takers.had(OperationId("c-1", number)) for number in (7, 8, 9)]
    [True, False, True]
    >>> takers.forget(OperationId("c-1", 7)); takers.had(OperationId("c-1", 7))
    False
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self._changed = changed
        self._known: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def had(self, operation: OperationId) -> bool:
        """Whether this get had something."""
        last, mask = self._known.get(operation.client, (-1, 0))
        behind = last - operation.number
        return 0 <= behind < NUMBERS and bool(mask >> behind & 1)

    def note(self, operation: OperationId) -> None:
        client, number = operation.client, operation.number
        known = self._known.get(client)
        last, mask = known or (number, 0)
        if number >= last + NUMBERS:
            last, mask = number, 1
        elif number >= last:
            last, mask = number, (mask << number - last) & _MASK | 1
        elif last - number < NUMBERS:
            mask |= 1 << (last - number)
        self._known[client] = last, mask
        self._changed[KIND + client.encode()] = None
        if known is None and len(self._known) > CLIENTS_MAX:
            gone, _ = self._known.popitem(last=False)
            self._changed[KIND + gone.encode()] = None

    def forget(self, operation: OperationId) -> None:
        """Its lease is over, and perhaps it was never told: it asks anew."""
        last, mask = self._known.get(operation.client, (-1, 0))
        behind = last - operation.number
        if 0 <= behind < NUMBERS:
            self._known[operation.client] = last, mask & ~(1 << behind)
            self._changed[KIND + operation.client.encode()] = None

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        for client in self._known:
            yield KIND + client.encode()

    def record(self, key: bytes) -> bytes | None:
        known = self._known.get(key[1:].decode())
        return None if known is None else _ENCODE(known)

    def restore(self, key: bytes, value: bytes) -> None:
        self._known[key[1:].decode()] = msgspec.msgpack.decode(value, type=tuple[Whole, Unsigned])
