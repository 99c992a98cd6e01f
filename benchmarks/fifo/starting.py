"""Starts the peers of a comparison, whatever they are, and stops them in the end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.fifo.peer import Missing

from snowmelt.core.errors import SnowmeltError


class Startable(Protocol):
    """What all peers have in common."""

    def start(self, folder: Path) -> None:
        """Runs it with its data in `folder`, until it can be used. May raise `Missing`."""

    def stop(self) -> None:
        """Ends what `start` began, however far that came."""


Peer = TypeVar("Peer", bound=Startable)


@contextmanager
def running(
    names: list[str], folder: Path, make: Callable[[str], Peer]
) -> Iterator[tuple[list[Peer], dict[str, str]]]:
    """Those peers that could be started, and why the others could not."""
    peers: list[Peer] = []
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name in names:
            progress(f"starting {name}")
            try:
                peer = make(name)
                stack.callback(peer.stop)
                (folder / name).mkdir()
                peer.start(folder / name)
            except (Missing, SnowmeltError) as error:
                missing[name] = str(error)
            else:
                peers.append(peer)
        progress("")
        yield peers, missing
        progress("stopping")
    progress("")


def progress(line: str) -> None:
    """One line that is written over, and only where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
