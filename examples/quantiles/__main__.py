"""`python -m quantiles`: exact quantiles of a table's column, and of what waits in a queue."""

import argparse
import json
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.errors import SnowmeltError
from snowmelt.spark import session
from snowmelt_lab.spark import Selected, quantiles, select

SHARES = (0.5, 0.9, 0.99, 0.999)


def requests(spark: SparkSession, rows: int) -> DataFrame:
    """A log of requests: most are quick, few take long, one in a hundred has no time."""
    chance = "(xxhash64(id) & 1048575) / 1048576D"
    took = f"cast(2000 / (1.0001 - {chance}) as long)"
    return spark.range(rows).selectExpr("id", f"if(id % 100 = 7, null, {took}) as microseconds")


def fill(url: str, orders: int) -> None:
    """So many orders into a queue, each with a price."""
    with snowmelt.connect(url) as cluster:
        prices = [at * 7919 % 100_003 for at in range(orders)]
        cluster.fifo("orders").put_many([json.dumps({"cents": one}).encode() for one in prices])


def waiting(spark: SparkSession, url: str) -> DataFrame:
    """The prices that wait. Nothing is taken; what others take meanwhile may change the frame.

    So it is persisted: all scans see the same.
    """
    reader = spark.read.format("snowmelt").option("url", url).option("queue", "orders")
    price = "cast(get_json_object(cast(value as string), '$.cents') as long) as cents"
    return reader.load().selectExpr(price).persist()


def tell(name: str, shares: tuple[float, ...], found: Selected, seconds: float) -> None:
    """What was found, and what it took."""
    print(f"{name}: {found.count:,} values, {found.nulls:,} nulls")
    for share, rank, value in zip(shares, found.ranks, found.values, strict=True):
        print(f"{value:14,}  at {share:g}, the {rank:,}th")
    brought = f"{found.brought:,} values came to the driver, {found.held:,} bytes at a time"
    print(f"in {found.scans} scans and {seconds:.1f} s; {brought}", flush=True)


def main() -> None:
    """A table, then a queue."""
    parser = argparse.ArgumentParser(prog="python -m quantiles", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the table")
    parser.add_argument("--orders", type=int, default=100_000, help="in the queue")
    options = parser.parse_args()
    if options.rows < 1000 or options.orders < 1:
        parser.error("--rows is 1000 or more, --orders 1 or more")
    end_on_sigterm()
    spark = session("quantiles")
    begin = time.perf_counter()
    found = quantiles(requests(spark, options.rows), "microseconds", q=SHARES)
    tell("microseconds of a request", SHARES, found, time.perf_counter() - begin)
    with (
        tempfile.TemporaryDirectory(prefix="quantiles-") as folder,
        LocalCluster(1, Path(folder), 0.5) as cluster,
    ):
        cluster.start()
        fill(cluster.url, options.orders)
        prices = waiting(spark, cluster.url)
        begin = time.perf_counter()
        found = quantiles(prices, "cents", q=SHARES)
        tell("cents of the orders that wait", SHARES, found, time.perf_counter() - begin)
        [dearest] = select(prices, "cents", k=[found.count])
        print(f"{dearest:14,}  is the dearest")
    spark.stop()


if __name__ == "__main__":
    try:
        main()
    except SnowmeltError as error:
        raise SystemExit(f"quantiles: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
