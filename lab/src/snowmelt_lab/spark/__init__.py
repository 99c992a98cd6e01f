"""KSelect on Spark: exact ranks of a frame's column, without a sort and without a shuffle."""

from snowmelt_lab.spark.narrowing import FrameChanged
from snowmelt_lab.spark.selecting import Selected, quantiles, select

__all__ = ["FrameChanged", "Selected", "quantiles", "select"]
