"""A pipeline for Spark's cluster: its functions travel by value, executors know no such file."""

import os

from pyspark.sql import DataFrame
from pyspark.sql.functions import udf

from snowmelt.spark import Pipeline


def double(body: bytearray) -> bytes:
    return bytes(body) * 2


def doubled(rows: DataFrame) -> DataFrame:
    return rows.select(udf(double, "binary")("value").alias("value"))


pipeline = (
    Pipeline("twice")
    .stage("double", source="single", sink="doubled", transform=doubled)
    .stage("write", source="doubled", parquet=os.environ.get("PARQUET", "out"))
)
