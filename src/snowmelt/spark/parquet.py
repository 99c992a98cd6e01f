"""Whether a folder of Parquet takes what a stage is about to write.

Spark writes the number of each batch into a log within the folder, and leaves a batch out whose
number is not above the last one there: so none is written twice. It does not ask whose numbers
these are. A new checkpoint begins with 0; in a folder that another checkpoint has written, all its
batches up to that one's last would be in no file, and the queue would hear that they are done. It
is the same with a checkpoint that wrote into the folder, if another went on there meanwhile, or if
it was put back. Spark writes a batch into the checkpoint's log before the folder has it. So a batch
that only the folder knows is one that this checkpoint lost.
"""

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from snowmelt.core.errors import BadOption
from snowmelt.spark.stages import SparkStage
from snowmelt.spark.where import is_remote

_LOG: Final = "_spark_metadata"


def check_folder(session: SparkSession, stage: SparkStage, checkpoint: str) -> None:
    """Raises when another checkpoint wrote into a stage's folder what this one has yet to write."""
    if stage.parquet is None:
        return
    if _is_there(session, f"{checkpoint}/offsets"):
        known = _last(session, f"{checkpoint}/offsets")
        if _last(session, f"{stage.parquet}/{_LOG}") <= known:
            return
        whose = f"this checkpoint, {checkpoint}, which knows of {known + 1} batches only"
    elif _is_there(session, f"{stage.parquet}/{_LOG}"):
        whose = f"the new checkpoint {checkpoint}"
    else:
        return
    allowed = (
        "a new folder: another checkpoint wrote into this one, and Spark would leave out as "
        f"many batches of {whose}. Or move the old folder away"
    )
    raise BadOption(f"parquet of stage {stage.name}", stage.parquet, allowed)


def _last(session: SparkSession, log: str) -> int:
    """The last batch in one of Spark's logs; -1 for none, or where it can't be read, by Connect."""
    if is_remote(session):
        return -1
    spark = session.sparkContext
    place = spark._jvm.org.apache.hadoop.fs.Path(log)  # type: ignore[union-attr]  # noqa: SLF001
    files = place.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not files.exists(place):
        return -1
    names = [one.getPath().getName().removesuffix(".compact") for one in files.listStatus(place)]
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _is_there(session: SparkSession, folder: str) -> bool:
    """Whether there is such a folder, wherever it lies; Spark itself looks, over Connect too."""
    try:
        session.read.format("binaryFile").load(folder).select("path").collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    return True
