"""Lines become words, in Spark; long words become loud, in plain Python.

lines ──> split (Spark) ──> words ──> shout (worker) ──> loud
"""

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, explode, split

from snowmelt.spark import Pipeline


def words_of(lines: DataFrame) -> DataFrame:
    """A row a word; the sink takes the column `value`."""
    text = col("value").cast("string")
    return lines.select(explode(split(text, r"\W+")).alias("value")).where("value != ''")


def loud(word: bytes) -> list[bytes]:
    """None, one or several items for each that comes in."""
    return [word.upper()] if len(word) > 5 else []


pipeline = (
    Pipeline("words")
    .stage("split", source="lines", sink="words", transform=words_of)
    .stage("shout", source="words", sink="loud", worker=loud)
)
