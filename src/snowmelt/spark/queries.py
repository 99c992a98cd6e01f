"""A Spark stage: one streaming query, with a checkpoint of its own."""

import time
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Final

from snowmelt.spark.failing import cause_of, failed, will_pass
from snowmelt.spark.stages import SparkStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TRIGGER: Final = "200 milliseconds"
"""An idle stage looks for items so often; a busy one begins the next batch at once."""
RESTARTS: Final = 3
RESTART_SECONDS: Final = 60.0
MADE: Final = "snowmelt_made"
ENDED: Final = "its query was stopped by another, or its Spark application was ended"
"""A stopped query is no error, whatever stopped it."""

Options = dict[str, str]


class SparkRun:
    def __init__(
        self,
        stage: SparkStage,
        group: str,
        session: "SparkSession",
        where: Options,
        checkpoint: str,
        log: Path,
        cores: int = 1,
    ) -> None:
        self.stage = stage
        self.made: int | None = 0
        self.lost = 0
        self._group = group
        self._session = session
        self._where = where
        self._checkpoint = checkpoint
        self._log = log
        self._cores = cores
        self._query: StreamingQuery | None = None
        self._counted = -1
        self._failures: list[float] = []

    def start(self) -> None:
        """Starts the query. Raises `StageFailed`, with what Spark says of the stage's plan."""
        try:
            self._query = self._writer(self._rows()).start()
        except Exception as error:
            whole = "".join(format_exception(error))
            raise failed(self.stage.name, cause_of(str(error)), whole, self._log) from None
        self._counted = -1

    def check(self) -> None:
        """Counts what was made, and raises what went wrong, if anything did.

        When nobody was there to answer, the query is begun anew from its checkpoint; three times a
        minute, and then no more.
        """
        assert self._query is not None
        self._count(self._query)
        active = self._query.isActive  # first: who ends then has said why
        error = self._query.exception()
        if error is None and active:
            return
        whole = str(error) if error is not None else ENDED
        cause = cause_of(whole)
        failure = failed(self.stage.name, cause, whole, self._log)
        now = time.monotonic()
        self._failures = [at for at in self._failures if now - at < RESTART_SECONDS] + [now]
        if not will_pass(cause) or len(self._failures) > RESTARTS:
            raise failure
        self.start()

    def ask_to_stop(self) -> None:
        """A query needs no notice beforehand."""

    def stop(self) -> None:
        """Stops the query; a batch it is in the middle of is done again the next time."""
        if self._query is not None:
            self._count(self._query)
            self._query.stop()

    # --- the query --------------------------------------------------------------------------------

    def _rows(self) -> "DataFrame":
        from pyspark.sql.functions import count, lit  # noqa: PLC0415  only where Spark is there

        from snowmelt.spark.reader_function import ReaderFunction  # noqa: PLC0415
        from snowmelt.spark.session import register_inside  # noqa: PLC0415

        stage = self.stage
        options = self._where | {"queue": stage.source, "group": self._group}
        options["maxMessagesPerTrigger"] = str(stage.rows_per_batch)
        options["maxBytesPerTrigger"] = str(stage.bytes_per_batch)
        options["batchSeconds"] = str(stage.batch_seconds)
        options["cores"] = str(self._cores)
        options["failOnDataLoss"] = str(stage.fail_on_loss).lower()
        # A stage reads one queue, and the queue that it fills tells whether rows are others.
        kept = stage.sink is not None and stage.fail_on_other_content
        options["failOnOlderCheckpoint"] = str(not kept).lower()
        if stage.partitions is not None:
            options["minPartitions"] = str(stage.partitions)
        form = "snowmelt"
        if stage.arrow is not None:
            inside = ReaderFunction.of(stage.arrow, stage.columns)
            form = register_inside(self._session, self._group, inside)
        rows = self._session.readStream.format(form).options(**options).load()
        if stage.transform is not None:
            rows = stage.transform(rows)
        if stage.write is not None:
            return rows  # what is observed does not go through a function of batches
        return rows.observe(MADE, count(lit(1)).alias("rows"))

    def _writer(self, rows: "DataFrame") -> "DataStreamWriter":
        stage = self.stage
        writer = (
            rows.writeStream.queryName(self._group)
            .option("checkpointLocation", self._checkpoint)
            .trigger(processingTime=TRIGGER)
        )
        if stage.sink is not None:
            writer = writer.option("failOnOtherContent", str(stage.fail_on_other_content).lower())
            return writer.format("snowmelt").options(**self._where, queue=stage.sink)
        if stage.parquet is not None:
            return writer.format("parquet").option("path", stage.parquet)
        assert stage.write is not None
        return writer.foreachBatch(stage.write)

    def _count(self, query: "StreamingQuery") -> None:
        """Adds what the batches made that ended since the last look."""
        if self.stage.write is not None:
            self.made = None
            return
        last = query.lastProgress
        if last is None or last.batchId <= self._counted:
            return
        # Most times no more than one batch ended, and a list of a hundred is long to read.
        ended = [last] if last.batchId == self._counted + 1 else query.recentProgress
        for progress in ended:
            row = progress.observedMetrics.get(MADE)
            if row is not None and progress.batchId > self._counted:
                self.made = (self.made or 0) + _observed(row)
                self._counted = progress.batchId


def _observed(row: "Row") -> int:
    """The one number of an observed row; over Connect it stands in a row of values and a schema."""
    told = row.asDict()
    return int(told["rows"] if "rows" in told else told["values"][0])
