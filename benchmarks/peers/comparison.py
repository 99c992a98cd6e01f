"""What a comparison is made of: peers, kinds of work, and what is wanted of the ratios."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from snowmelt.core.errors import CallerError

WAIT_SECONDS: Final = 30.0
"""The most that any one wait for a server takes."""

Figures = Mapping[str, float]
"""What a turn measured; peers are compared by the first of them."""

Maker = tuple[str, str, tuple[Any, ...]]
"""The module of a peer, the function that makes it, and what that is given after the name."""

DISK: Final = "disk"


class Missing(CallerError):
    """A peer can't take part here; says what to install, or what its server said."""


class TurnFailed(Exception):
    """A turn that came to no figures."""


class Service(Protocol):
    """The servers of a peer."""

    version: str
    """Known once started."""

    @property
    def pids(self) -> list[int]:
        """The processes whose work counts."""

    def start(self, folder: Path) -> None:
        """Runs them with their data in `folder`, until they can be used. May raise `Missing`."""

    def stop(self) -> None:
        """Ends what `start` began, however far that came."""


@dataclass
class NoService:
    """Of a peer that has no server."""

    version: str
    pids: list[int] = field(default_factory=list)

    def start(self, folder: Path) -> None:
        """There is nothing to start."""

    def stop(self) -> None:
        """There is nothing to stop."""


@dataclass(kw_only=True)
class Peer:
    """Something in some setting. Each comparison adds how it is used."""

    name: str
    promise: str
    service: Service
    above: bool = True
    """Whether it stands above the line: a comparison is fair within each half only."""

    def start(self, folder: Path) -> None:
        """Its servers, and what has to be there once."""
        self.service.start(folder)

    def stop(self) -> None:
        """Ends what `start` began."""
        self.service.stop()


@dataclass(frozen=True)
class Limits:
    """How much a turn does."""

    seconds: float
    quick: bool
    count: int = 0
    """How many things, where time is not the measure."""


@dataclass(frozen=True)
class Work:
    """One thing measured."""

    name: str
    title: str
    act: Callable[[Any, str, Limits], Figures]
    """Has this peer do it, in a queue of this name. May raise `TurnFailed`."""
    fits: Callable[[Any], bool] = lambda _: True
    """Whether this peer does such a thing."""
    asked: bool = False
    """Whether it is left out unless it is named."""

    def __str__(self) -> str:
        return self.title


@dataclass(frozen=True)
class Goal:
    """What a ratio to the best of some rivals is to be."""

    works: tuple[str, ...]
    ours: str
    rivals: tuple[str, ...]
    at_least: float | None = None
    at_most: float | None = None
    figure: str = ""
    """The one that peers are compared by, if it is not named."""
    beside: str = ""
    """Another kind of work; then ours is compared with itself there."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A table of kinds of work and peers."""

    name: str
    about: str
    peers: Mapping[str, Maker]
    works: tuple[Work, ...]
    ours: tuple[str, ...]
    """The rows that the others are compared with."""
    columns: Mapping[str, str]
    """The heads of the tables, and their figures."""
    charted: Mapping[str, str]
    """The figures that are drawn, and what they are."""
    legend: str
    """What is said of each peer."""
    notes: str
    goals: tuple[Goal, ...] = ()
    seconds: tuple[float, float] = (1.5, 0.3)
    """How long a turn measures, and how long with `--quick`."""
    rounds: tuple[int, int] = (3, 1)
    count: tuple[int, int] = (0, 0)
    counted: str = ""
    """The option that changes `count`, such as "jobs"."""
    quick: tuple[str, ...] = ()
    """The kinds of work with `--quick`; all if none is named."""
    setup: Callable[[Path], str] | None = None
    """Installs what `--install` asks for; says what it did."""

    def peers_of(self, word: str) -> list[str]:
        """Those of a name, or of a family such as `redis`; none when there is no such one."""
        return named(word, self.peers)

    def works_of(self, word: str) -> list[str]:
        """Those of a name, or of a family such as `large`."""
        return named(word, [work.name for work in self.works])

    def make(self, name: str) -> Peer:
        """A peer that is not started. Its client's package is imported only now."""
        module, function, values = self.peers[name]
        try:
            made = getattr(import_module(f"benchmarks.peers.{module}"), function)
        except ModuleNotFoundError as error:
            raise Missing(
                f"there is no Python package {error.name}: pip install -e '.[bench]'"
            ) from error
        peer: Peer = made(name, *values)
        return peer


def named(word: str, names: Any) -> list[str]:
    """The name itself, and its family.

    >>> named("redis", ["redis", "redis-3", "rabbitmq"])
    ['redis', 'redis-3']
    """
    return [name for name in names if name == word or name.startswith(f"{word}-")]
