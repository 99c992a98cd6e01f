"""The names of a queue's keys, each with a number.

1. A name has its number from its first item on, and numbers only grow. Names are records in pages
   of neighbours, which are written when a name comes, and go with the last of theirs.
2. A key of which no item lives is *idle*. The last `IDLE_MAX` of those keep their numbers, since
   keys come again and again. Who reads records knows as idle what had been forgotten, and the
   later number of a name is the one that counts.
3. An empty name, which only a strange client sends, is none.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

NAMES: Final = b"j"
PAGE: Final = 32
IDLE_MAX: Final = 4_096
NO_KEY: Final = 0
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(list[bytes]).decode


class _Page(msgspec.Struct):
    names: list[bytes]
    """Empty where a number was of a page that had gone."""
    left: int
    """How many of them are known."""


class KeyNames:
    """Of one queue.

    >>> names = KeyNames(changed := {})
    >>> names.numbers((b"a", None, b"b", b"a")), names.name(2), len(changed)
    ([1, 0, 2, 1], b'b', 1)
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self.known: dict[bytes | None, int] = {None: NO_KEY}
        self._changed = changed
        self._pages: dict[int, _Page] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        """What was idle once; some may have items again."""
        self._last = NO_KEY

    def number(self, name: bytes | None) -> int:
        """Of one, which may be new."""
        number = self.known.get(name)
        return self._new(name) if number is None and name else number or NO_KEY

    def numbers(self, row: Sequence[bytes | None]) -> list[int]:
        """Of several."""
        numbers = list(map(self.known.get, row))
        found = [one for one in numbers if one is not None]
        return found if len(found) == len(row) else [self.number(name) for name in row]

    def _new(self, name: bytes) -> int:
        number = self._last = self._last + 1
        at = number // PAGE
        page = self._pages.get(at)
        if page is None:
            page = self._pages[at] = _Page([b""] * (number % PAGE), 0)
        page.names.append(name)
        page.left += 1
        self.known[name] = number
        self._changed[_record(at)] = None
        return number

    def name(self, number: int) -> bytes:
        """Of a number that is known; empty for no key."""
        return self._pages[number // PAGE].names[number % PAGE] if number else b""

    def idle(self, number: int, items: Collection[int]) -> None:
        """Nothing of it lives by now; `items` has the numbers of those that do (rule 2)."""
        self._idle[number] = None
        while len(self._idle) > IDLE_MAX:
            oldest, _ = self._idle.popitem(last=False)
            if oldest not in items:
                self._forget(oldest)

    def _forget(self, number: int) -> None:
        at, name = number // PAGE, self.name(number)
        if not name:  # of before rule 3: its page does not count it
            return
        if self.known.get(name) == number:
            del self.known[name]
        page = self._pages[at]
        page.left -= 1
        if not page.left:
            del self._pages[at]
            self._changed[_record(at)] = None

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        yield from map(_record, self._pages)

    def record(self, key: bytes) -> bytes | None:
        page = self._pages.get(int.from_bytes(key[1:]))
        return None if page is None else _ENCODE(page.names)

    def restore(self, key: bytes, value: bytes) -> None:
        """From a record; they come in the order of their numbers."""
        at, names = int.from_bytes(key[1:]), _DECODE(value)
        self._pages[at] = _Page(names, len(names) - names.count(b""))
        for number, name in enumerate(names, start=at * PAGE):
            if not name:
                continue
            before = self.known.get(name)
            if before is not None:
                self._forget(before)
            self.known[name] = number
        self._last = max(self._last, at * PAGE + len(names) - 1)

    def find_idle(self, items: Collection[int]) -> None:
        """Which have no items, after all records were read."""
        for number in self.known.values():
            if number and number not in items:
                self._idle[number] = None


def _record(page: int) -> bytes:
    return NAMES + page.to_bytes(8)
