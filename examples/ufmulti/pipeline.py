"""The stages: raw events become tracks, tracks are tested, pairs that pass are written.

    snowmelt pipeline run examples/ufmulti/pipeline.py --drain

raw ──> reconstruct ──> tracks ──> test ──> pairs ──> write ──> Parquet
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from snowmelt.spark import Pipeline
from ufmulti.pairs import pairs_table, select_bodies
from ufmulti.reconstruct import reconstruct_bodies

RAW, TRACKS, PAIRS = "ufmulti-raw", "ufmulti-tracks", "ufmulti-pairs"
COLUMNS = (
    "event long, mass float, plus_pt float, plus_eta float, plus_phi float, "
    "minus_pt float, minus_eta float, minus_phi float"
)

Stage = Callable[[pa.Array], tuple[pa.Array, NDArray[np.bool_]]]


def pipeline(folder: str = "ufmulti-out") -> Pipeline:
    """The pipeline that writes the pairs into a folder.

    >>> print(pipeline())
    pipeline ufmulti
    ufmulti-raw    ──> reconstruct (Spark) ──> ufmulti-tracks
    ufmulti-tracks ──> test (Spark)        ──> ufmulti-pairs
    ufmulti-pairs  ──> write (Spark)       ──> Parquet in ufmulti-out
    """
    return (
        Pipeline("ufmulti")
        .stage(
            "reconstruct",
            source=RAW,
            sink=TRACKS,
            arrow=partial(through, reconstruct_bodies),
        )
        .stage("test", source=TRACKS, sink=PAIRS, arrow=partial(through, select_bodies))
        .stage("write", source=PAIRS, arrow=written, columns=COLUMNS, parquet=folder)
    )


def through(stage: Stage, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The bodies that a stage makes of the bodies; what does not read makes none."""
    for batch in batches:
        yield pa.record_batch([stage(batch["value"])[0]], ["value"])


def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The pairs as columns."""
    for batch in batches:
        table = pairs_table(batch["value"])[0]
        yield from table.set_column(0, "event", table["event"].cast(pa.int64())).to_batches()
