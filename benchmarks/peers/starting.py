"""Starts the peers of a comparison, and stops them in the end."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.comparison import Comparison, Missing, Peer

from snowmelt.core.errors import SnowmeltError


@contextmanager
def running(
    comparison: Comparison, names: list[str], folder: Path
) -> Iterator[tuple[list[Peer], dict[str, str]]]:
    """Those peers that could be started, and why the others could not."""
    peers: list[Peer] = []
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name in names:
            progress(f"starting {name}")
            try:
                peer = comparison.make(name)
                stack.callback(peer.stop)
                (folder / name).mkdir()
                peer.start(folder / name)
            except (Missing, SnowmeltError) as error:
                missing[name] = str(error)
            else:
                peers.append(peer)
        progress("")
        for name, why in missing.items():
            print(f"{name} takes no part: {why}", file=sys.stderr)
        yield peers, missing
        progress("stopping")
    progress("")


def progress(line: str, done: float | None = None) -> None:
    """One line that is written over, and only where somebody looks; with a bar if it is known."""
    if sys.stderr.isatty():
        bar = "" if done is None else f"[{'#' * round(20 * done):20}] {done:4.0%} "
        print(f"\r\x1b[K{bar}{line}", end="", file=sys.stderr, flush=True)
