"""Drivers for Spark's cluster, each a process: `python -m tests.cluster.programs NAME …`.

What they find is their last line, as JSON.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, upper
from pyspark.sql.streaming import StatefulProcessor

import snowmelt.spark
from snowmelt.spark.where import at_once

STORE = "spark.sql.streaming.stateStore.providerClass"
STORES = "org.apache.spark.sql.execution.streaming.state"


def stream(url: str, folder: str, queue: str, **where: str) -> dict[str, Any]:
    """The first stream of the documentation, by a session that is told no more than where."""
    spark = snowmelt.spark.session("stream", **where)
    _drained(_rows(spark, url, queue), url, f"{queue}.loud", Path(folder, queue))
    return {"master": spark.conf.get("spark.master")}


def slowly(url: str, folder: str, queue: str) -> dict[str, Any]:
    """The same in batches of a hundred."""
    spark = snowmelt.spark.session("slowly")
    rows = _rows(spark, url, queue, maxMessagesPerTrigger="100")
    _drained(rows, url, f"{queue}.loud", Path(folder, queue))
    return {}


def each_batch(url: str, folder: str, queue: str, **where: str) -> dict[str, Any]:
    """What a batch holds is put into a queue by a function, under the number of the batch."""
    spark = snowmelt.spark.session("each", **where)

    def count(rows: DataFrame, batch: int) -> None:
        told = rows.selectExpr("cast(count(*) as string) value").write.format("snowmelt")
        told = told.mode("append").options(url=url, queue=f"{queue}.counted")
        told.options(txnAppId=queue, txnVersion=str(batch)).save()

    writer = _rows(spark, url, queue).writeStream.foreachBatch(count)
    writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
    assert writer.start().awaitTermination(250)
    return {"cores": at_once(spark)}


def states(url: str, folder: str, queue: str) -> dict[str, Any]:
    """How many items a queue has had so far, kept as state, told anew with each batch."""
    spark = snowmelt.spark.session("states", **{STORE: f"{STORES}.RocksDBStateStoreProvider"})
    rows = spark.readStream.format("snowmelt").options(url=url, queue=queue).load()
    counts = rows.groupBy("queue").transformWithStateInPandas(
        Counting(), "value string", "Update", "None"
    )

    def put(rows: DataFrame, batch: int) -> None:
        writer = rows.write.format("snowmelt").mode("append")
        writer.options(url=url, queue=f"{queue}.counts", txnVersion=batch).save()

    writer = counts.writeStream.foreachBatch(put).outputMode("update")
    writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
    assert writer.start().awaitTermination(200)
    return {}


class Counting(StatefulProcessor):
    """Counts rows by key."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002, N802, N803
        import pandas as pd  # noqa: PLC0415

        before = self._count.get()[0] if self._count.exists() else 0
        count = before + sum(len(some) for some in rows)
        self._count.update((count,))
        yield pd.DataFrame({"value": [str(count)]})

    def close(self) -> None:
        """Nothing is held."""


def _rows(spark: SparkSession, url: str, queue: str, **options: str) -> DataFrame:
    rows = spark.readStream.format("snowmelt").options(url=url, queue=queue, **options).load()
    return rows.select(upper(col("value").cast("string")).alias("value"))


def _drained(rows: DataFrame, url: str, queue: str, checkpoint: Path) -> None:
    writer = rows.writeStream.format("snowmelt").options(url=url, queue=queue)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    assert writer.start().awaitTermination(250)


PROGRAMS: dict[str, Callable[..., dict[str, Any]]] = {
    "stream": stream,
    "slowly": slowly,
    "each_batch": each_batch,
    "states": states,
}

if __name__ == "__main__":
    name, *words = sys.argv[1:]
    plain = [word for word in words if "=" not in word]
    told = dict(word.split("=", 1) for word in words if "=" in word)
    print(json.dumps(PROGRAMS[name](*plain, **told)))
