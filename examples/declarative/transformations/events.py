"""A queue into a table, and from that table into another queue, declared and not programmed.

Spark finds the format `snowmelt` by itself wherever the package is installed.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

spark = SparkSession.active()
URL = os.environ.get("SNOWMELT_URL", "snowmelt://127.0.0.1:4410")


@dp.table
def events() -> DataFrame:
    """Every item of the queue `events`, as text, once."""
    items = (
        spark.readStream.format("snowmelt")
        .option("url", URL)
        .option("queue", "events")
        .option("group", "declarative")
        .load()
    )
    return items.select(col("position"), col("value").cast("string").alias("text"))


dp.create_sink("urgent", "snowmelt", {"url": URL, "queue": "urgent"})


@dp.append_flow(target="urgent", name="find_urgent")
def find_urgent() -> DataFrame:
    """Those events that begin with an exclamation mark go on, into the queue `urgent`."""
    found = spark.readStream.table("events").where(col("text").startswith("!"))
    return found.select(col("text").alias("value"))
