"""`python -m muons`: a table of events into a queue, through a pipeline, and back into a table."""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from muons.events import COLUMNS, SCHEMA, made, packed
from muons.pipeline import EVENTS, pipeline
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.errors import SnowmeltError
from snowmelt.spark import session
from snowmelt.spark.shipping import ship

SEED = 1
FILE_EVENTS = 50_000


def make(folder: Path, events: int) -> None:
    """Files of events, where there are no real ones."""
    folder.mkdir(parents=True)
    for first in range(0, events, FILE_EVENTS):
        some = made(first, min(FILE_EVENTS, events - first), SEED)
        pq.write_table(pa.Table.from_batches([some]), folder / f"{first}.parquet")


def put(spark: SparkSession, table: str, url: str) -> None:
    """All events of a table into the queue: once, however often this is run for the same table."""

    def bodies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch([packed(batch.cast(SCHEMA))], ["value"])

    ship([packed])  # executors can't import what lies here
    events = spark.read.schema(COLUMNS).parquet(table).mapInArrow(bodies, "value binary")
    writer = events.write.format("snowmelt").mode("append").option("url", url)
    writer.options(queue=EVENTS, txnAppId="muons", txnVersion=1).save()


def wanted(spark: SparkSession, table: str) -> DataFrame:
    """What the pipeline must write, by Spark's own means."""
    events = spark.read.schema(COLUMNS).parquet(table)
    total = "aggregate(Muon_charge, 0, (sum, charge) -> sum + charge)"
    return events.where(f"nMuon = 2 and {total} = 0")


def differing(one: DataFrame, other: DataFrame) -> int:
    """How many rows are in one of them alone."""
    return one.exceptAll(other).count() + other.exceptAll(one).count()


def main() -> int:
    """All of it, and whether what came back is what was put."""
    parser = argparse.ArgumentParser(prog="python -m muons", description=__doc__)
    parser.add_argument("--table", help="a folder of Parquet of your own; else one is made")
    parser.add_argument("--events", type=int, default=200_000, help="in the one that is made")
    parser.add_argument("--url", help="a cluster; if none, three nodes of its own")
    parser.add_argument("--out", default="muons-out", help="a new folder for what comes back")
    options = parser.parse_args()
    if options.events < 1 or Path(options.out).exists():
        parser.error("--events is 1 or more, --out a folder that is not there yet")
    end_on_sigterm()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muons-")))
        url = options.url or own_nodes(stack, scratch)
        table = options.table or str(scratch / "table")
        if options.table is None:
            make(Path(table), options.events)
        spark = session("muons")
        stack.callback(spark.stop)
        put(spark, table, url)
        stood = pipeline(options.out).run(
            url, drain=True, checkpoints=scratch / "checkpoints", session=spark
        )
        written = spark.read.parquet(options.out)
        wrong = differing(wanted(spark, table), written)
        print(f"{stood[0].taken:9,}  events went through the queue")
        print(f"{written.count():9,}  of a pair, in {options.out}")
        print(f"{wrong:9,}  of them differ from those of the table")
    return 1 if wrong else 0


def own_nodes(stack: ExitStack, folder: Path) -> str:
    """Three nodes that live as long as this program."""
    cluster = stack.enter_context(LocalCluster(3, folder / "nodes", 0.5))
    cluster.start()
    return cluster.url


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except SnowmeltError as error:
        raise SystemExit(f"muons: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
