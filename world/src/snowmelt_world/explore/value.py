"""A machine's whole state as a value: two machines with equal ones go on alike, whatever comes.

The walk goes over everything that a machine holds, whatever it is made of, and writes down what it
*is*, never where it lies. So no family has to say how its state is compared, and one that begins
to hold something new is told apart by it from then on. What is left out is named, with a reason:
a count that is only ever shown to people would make two states of one.
"""

from collections import OrderedDict, deque
from enum import Enum
from functools import partial
from hashlib import blake2b
from itertools import count
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import msgspec

from snowmelt.core.errors import MachineError

NAMES: Final = 1 << 32
"""A number drawn from so many or more is a name, and must differ from all others."""
LIFE: Final = 100_000
"""A machine draws fewer names in one life."""
LeftOut = frozenset[tuple[str, str]]
"""Class and attribute of what is only counted for people."""

_PLAIN: Final = (int, str, bytes, bool, float, type(None))


class Dice(Random):
    """Dice that show names in order, and else the least: no chance is left, and little to compare.

    >>> dice = Dice(life=2)
    >>> dice.randrange(2**60), dice.getrandbits(63), dice.randrange(10), dice.sample("abc", 2)
    (200001, 200002, 0, ['a', 'b'])
    """

    def __init__(self, life: int) -> None:
        super().__init__(0)
        self.shown = life * LIFE

    def getrandbits(self, k: int, /) -> int:
        """The next name; few bits are no name."""
        if 1 << k < NAMES:
            return 0
        self.shown += 1
        return self.shown

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """The next name, or the least."""
        del step
        least, span = (0, start) if stop is None else (start, stop - start)
        return least if span < NAMES else self.getrandbits(63)

    def random(self) -> float:
        """The least."""
        return 0.0

    def sample(self, population: Any, k: int, **_: Any) -> list[Any]:
        """The first ones."""
        return list(population)[:k]

    def choice(self, seq: Any) -> Any:
        """The first."""
        return seq[0]

    def choices(self, population: Any, *_: Any, k: int = 1, **__: Any) -> list[Any]:
        """The first."""
        return [population[0]] * k

    def expovariate(self, lambd: float = 1.0) -> float:
        """No spread."""
        del lambd
        return 0.0


class Portrait:
    """Draws values.

    >>> portrait = Portrait()
    >>> portrait.of({"a": [1, 2]}) == portrait.of({"a": [1, 2]})
    True
    >>> portrait.of([1, 2]) == portrait.of([2, 1])
    False
    """

    def __init__(self, left_out: LeftOut = frozenset()) -> None:
        self._left_out = left_out
        self._fields: dict[type, tuple[str, ...]] = {}
        self._frozen: dict[Any, str] = {}

    def of(self, thing: object) -> bytes:
        """Sixteen bytes; other states have others, as surely as digests go."""
        words: list[str] = []
        self._add(thing, words, {})
        return blake2b("\0".join(words).encode(), digest_size=16).digest()

    def _add(self, thing: Any, words: list[str], met: dict[int, int]) -> None:
        kind = type(thing)
        if kind in _PLAIN:
            words.append(repr(thing))
        elif kind is tuple:
            self._row("(", thing, words, met)
        elif isinstance(thing, Enum):
            words.append(str(thing))
        elif isinstance(thing, msgspec.Struct) and thing.__struct_config__.frozen:
            words.append(self._frozen_form(thing, met))
        elif id(thing) in met:  # shared, or round in a circle: which one it is says all
            words.append(f"@{met[id(thing)]}")
        else:
            met[id(thing)] = len(met)
            self._add_changing(thing, words, met)

    def _frozen_form(self, thing: Any, met: dict[int, int]) -> str:
        """What never changes is drawn once."""
        try:
            found = self._frozen.get(thing)
        except TypeError:  # something in it may change
            return self._struct(thing, met)
        if found is None:
            found = self._frozen[thing] = self._struct(thing, met)
        return found

    def _struct(self, thing: Any, met: dict[int, int]) -> str:
        words = [type(thing).__name__]
        for field in thing.__struct_fields__:
            self._add(getattr(thing, field), words, met)
        return "\0".join(words)

    def _add_changing(self, thing: Any, words: list[str], met: dict[int, int]) -> None:
        match thing:
            case dict() | OrderedDict():
                pairs = [part for pair in thing.items() for part in pair]
                self._row("{", pairs, words, met)
            case list() | deque() | tuple():
                self._row("[", thing, words, met)
            case set() | frozenset():
                forms = sorted(self.of(part).hex() for part in thing)
                words += ["<", *forms, ">"]
            case memoryview() | bytearray():
                words.append(repr(bytes(thing)))
            case partial(func=func, args=args, keywords=keywords):
                self._row("partial", (func, args, keywords), words, met)
            case MethodType():
                words.append(thing.__func__.__qualname__)
                self._add(thing.__self__, words, met)
            case FunctionType():
                cells = [cell.cell_contents for cell in thing.__closure__ or ()]
                self._row(thing.__qualname__, cells, words, met)
            case type() | BuiltinFunctionType():
                words.append(thing.__qualname__)
            case count():
                words.append(repr(thing))
            case Random() if not isinstance(thing, Dice):
                self._row("dice", thing.getstate(), words, met)
            case _:
                self._object(thing, words, met)

    def _row(self, mark: str, parts: Any, words: list[str], met: dict[int, int]) -> None:
        words += [mark, str(len(parts))]
        for part in parts:
            self._add(part, words, met)

    def _object(self, thing: Any, words: list[str], met: dict[int, int]) -> None:
        words.append(type(thing).__name__)
        for field in self._fields_of(thing):
            if hasattr(thing, field):
                words.append(field)
                self._add(getattr(thing, field), words, met)

    def _fields_of(self, thing: Any) -> tuple[str, ...]:
        kind = type(thing)
        known = self._fields.get(kind)
        if known is None:
            known = self._fields[kind] = self._found(thing)
        return known

    def _found(self, thing: Any) -> tuple[str, ...]:
        kind = type(thing)
        names = dict.fromkeys(getattr(kind, "__struct_fields__", ()))
        for one in kind.__mro__:
            slots = getattr(one, "__slots__", ())
            names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
        names |= dict.fromkeys(getattr(thing, "__dict__", ()))
        names = {name: None for name in names if name not in ("__dict__", "__weakref__")}
        if not names and kind.__module__ != "builtins" and not hasattr(thing, "__dict__"):
            raise MachineError(f"a {kind.__name__} can't be told apart from another")
        classes = [one.__name__ for one in kind.__mro__]
        return tuple(
            name
            for name in sorted(names)
            if not any((one, name) in self._left_out for one in classes)
        )
