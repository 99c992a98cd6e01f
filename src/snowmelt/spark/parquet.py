"""Whether a folder of Parquet takes what a stage is about to write.

Spark writes the number of each batch into a log within the folder, and leaves a batch out whose
number is not above the last one there: so none is written twice. It does not ask whose numbers
these are. A new checkpoint begins with 0; in a folder that another checkpoint has written, all its
batches up to that one's last would be in no file, and the queue be told that they are done.
"""

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from snowmelt.core.errors import BadOption
from snowmelt.spark.stages import SparkStage

_LOG: Final = "_spark_metadata"


def check_folder(session: SparkSession, stage: SparkStage, checkpoint: str) -> None:
    """Raises when a stage has a new checkpoint, and another wrote into its folder before."""
    if stage.parquet is None or _is_there(session, f"{checkpoint}/offsets"):
        return
    if _is_there(session, f"{stage.parquet}/{_LOG}"):
        allowed = (
            "a new folder: another checkpoint wrote into this one, and Spark would leave out as "
            f"many batches of the new checkpoint {checkpoint}. Or move the old folder away"
        )
        raise BadOption(f"parquet of stage {stage.name}", stage.parquet, allowed)


def _is_there(session: SparkSession, folder: str) -> bool:
    """Whether there is such a folder, wherever it lies; Spark itself looks, over Connect too."""
    try:
        session.read.format("binaryFile").load(folder).select("path").collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    return True
