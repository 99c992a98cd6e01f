"""Where every event went, and whether what was found is what must be found."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from snowmelt.client.cluster import Cluster
from ufmulti.acceptance import expected_of
from ufmulti.generate import truth
from ufmulti.pipeline import PAIRS, RAW, TRACKS
from ufmulti.tracker import Floats

SIGMAS = 4.0


@dataclass(frozen=True, slots=True)
class Flow:
    """What went through one queue: so many items were ever put, so many are done with."""

    put: int
    done: int


@dataclass(frozen=True, slots=True)
class Written:
    """What the last stage left in its folder."""

    event: NDArray[np.int64]
    mass: Floats


@dataclass(frozen=True, slots=True)
class Account:
    """The whole account of a run over the first so many events."""

    events: int
    raw: Flow
    tracks: Flow
    pairs: Flow
    written: Written
    made: int
    """Decays that the generator made."""
    found: int
    """Of those, the ones that were written."""

    @property
    def false(self) -> int:
        """Pairs that come from no decay."""
        return len(self.written.event) - self.found

    def wrong(self) -> Iterator[str]:
        """Every count that is not what it must be, in words; none in a good run."""
        flows = {"raw": self.raw, "tracks": self.tracks, "pairs": self.pairs}
        for name, flow in flows.items():
            if flow.done != flow.put:
                yield f"{flow.put:,} {name} were put, and {flow.done:,} are done with"
        if self.raw.put != self.events:
            yield f"{self.events:,} events were made, and {self.raw.put:,} put"
        if self.tracks.put != self.events:
            yield f"{self.events:,} events were made, and {self.tracks.put:,} reconstructed"
        if len(self.written.event) != self.pairs.put:
            yield f"{self.pairs.put:,} pairs passed, and {len(self.written.event):,} are written"
        distinct = len(np.unique(self.written.event))
        if distinct != len(self.written.event):
            yield f"{len(self.written.event) - distinct:,} events are written twice"
        foreseen, sigma = expected_of(self.made)
        if abs(self.found - foreseen) > SIGMAS * max(sigma, 1.0):
            yield f"{self.found:,} decays were found, and {foreseen:,.0f} ± {sigma:.0f} expected"


def account(
    cluster: Cluster, session: SparkSession, pairs: Path, events: int, seed: int
) -> Account:
    """Counts what came out against what the generator knows."""
    written = read(session, pairs)
    decays = truth(0, events, seed)
    return Account(
        events,
        raw=flow(cluster, RAW),
        tracks=flow(cluster, TRACKS),
        pairs=flow(cluster, PAIRS),
        written=written,
        made=len(decays.number),
        found=int(np.isin(decays.number.astype(np.int64), written.event).sum()),
    )


def flow(cluster: Cluster, queue: str) -> Flow:
    """What went through a queue. No position is ever given twice, and none was left empty here."""
    stats = cluster.fifo(queue).stats()
    return Flow(stats.tail, stats.done)


def read(session: SparkSession, pairs: Path) -> Written:
    """The pairs in the folder, by Spark: it knows which of the files there count."""
    if not any(pairs.glob("*.parquet")):
        return Written(np.empty(0, np.int64), np.empty(0))
    table = session.read.parquet(str(pairs)).select("event", "mass").toArrow()
    return Written(table["event"].to_numpy(), table["mass"].to_numpy().astype(np.float64))


def lines(of: Account) -> Iterator[tuple[str, str]]:
    """The account as a person reads it: a number, and what it counts."""
    foreseen, sigma = expected_of(of.made)
    yield f"{of.events:,}", "events made by the generator, and put into the first queue"
    yield f"{of.tracks.put:,}", "reconstructed, each exactly once"
    yield f"{of.tracks.done - of.pairs.put:,}", "rejected by the test"
    yield f"{of.pairs.put:,}", "passed, and written to Parquet"
    yield f"{of.made:,}", "events held a decay"
    yield f"{of.found:,}", f"of these were found; {foreseen:,.0f} ± {sigma:.0f} were expected"
    yield f"{of.false:,}", "pairs are background"
