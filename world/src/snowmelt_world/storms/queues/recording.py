"""Writes down what a process of clients saw, as `snowmelt check` reads it.

All times are of the system's monotonic clock, which is one for all processes of a machine. Beside
the history stands where each item lay (`SeenPlaces`): one that lies at two positions was put twice,
which the history alone can't tell from one that was delivered again. And how often it was said to
have been delivered in vain: one that never came without such a past went, at first, with a get that
nobody saw the answer of.
"""

from collections import Counter
from pathlib import Path
from typing import Self

import msgspec

from snowmelt_world.check import Ended, Kind, Operation
from snowmelt_world.storms.journals import now


class SeenPlaces(msgspec.Struct):
    """At which position each item was seen, and those seen at two."""

    at: dict[int, int] = {}
    doubled: dict[int, list[int]] = {}
    failures: dict[int, int] = {}
    """With how many failures each was got; of several times, the fewest."""
    tokens: dict[int, int] = {}
    """How often each token of a lease was given."""

    @property
    def twice(self) -> dict[int, int]:
        """The tokens that were given more than once."""
        return {token: times for token, times in self.tokens.items() if times > 1}

    @property
    def unseen(self) -> tuple[int, ...]:
        """The items whose first delivery nobody saw."""
        return tuple(item for item, times in self.failures.items() if times)

    def got(self, item: int, position: int, failures: int) -> None:
        """It was got there."""
        self.failures[item] = min(failures, self.failures.get(item, failures))
        self.saw(item, position)

    def leased(self, token: int) -> None:
        number = int(token)  # what is drawn beside it stays with the program
        self.tokens[number] = self.tokens.get(number, 0) + 1

    def add(self, other: "SeenPlaces") -> None:
        """What another process saw."""
        for item, position in other.at.items():
            self.saw(item, position)
        for item, positions in other.doubled.items():
            for position in positions:
                self.saw(item, position)
        for item, failures in other.failures.items():
            self.failures[item] = min(failures, self.failures.get(item, failures))
        for token, times in other.tokens.items():
            self.tokens[token] = self.tokens.get(token, 0) + times

    def saw(self, item: int, position: int) -> None:
        """It was put or got there."""
        known = self.at.setdefault(item, position)
        if known != position:
            self.doubled.setdefault(item, [known]).append(position)


class Recorder:
    """The history of one process of clients."""

    def __init__(self, folder: Path, name: str) -> None:
        self.places = SeenPlaces()
        self.attempts: Counter[str] = Counter()
        """How calls ended, those that were made again included."""
        self._places_file = folder / f"places-{name}.msgpack"
        self._attempts_file = folder / f"attempts-{name}.json"
        self._file = (folder / f"history-{name}.jsonl").open("wb")
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._places_file.write_bytes(msgspec.msgpack.encode(self.places))
        self._attempts_file.write_bytes(msgspec.json.encode(dict(self.attempts)))

    def ended(
        self,
        process: str,
        kind: Kind,
        values: list[int],
        called: int,
        ended: Ended = Ended.SUCCEEDED,
        position: int | None = None,
        priority: int = 0,
    ) -> None:
        """A call ended, now."""
        ranks = (priority,) * len(values)
        operation = Operation(process, kind, tuple(values), called, now(), ended, position, ranks)
        self._file.write(self._encoder.encode(operation) + b"\n")
