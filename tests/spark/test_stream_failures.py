"""From queue to queue while a node dies: every item once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.cluster import bodies, queues_of, wait_until
from wide import wide


@pytest.mark.parametrize(
    "victim", [1, *wide(2)]
)  # the first node decides who is here; it must come back
def test_a_node_dies_in_the_middle_and_nothing_is_lost_or_doubled(
    spark: SparkSession, tmp_path: Path, victim: int
) -> None:
    with queues_of(3, tmp_path) as queues:
        kept = {"replicas": 3, "durable_copies": 2}
        queues.fifo("raw", **kept).put_many([b"%d" % at for at in range(20_000)])
        queues.fifo("out", **kept).put(b"-1")
        frame = queues.stream(spark, queue="raw", maxMessagesPerTrigger="2500").select("value")
        writer = frame.writeStream.format("snowmelt").options(url=queues.url, queue="out")
        writer = writer.option("checkpointLocation", queues.path("kill"))
        query = writer.trigger(availableNow=True).start()
        assert wait_until(lambda: queues.fifo("raw").stats().done > 2500)
        queues.cluster.nodes[victim].kill()
        assert query.awaitTermination(60)
        assert sorted(map(int, bodies(queues.fifo("out")))) == list(range(-1, 20_000))
        assert queues.fifo("raw").stats().assigned == 0
