"""Queues as Spark's sources and sinks, pipelines of stages, and exact ranks of a column."""

from snowmelt.spark.pipeline import Pipeline
from snowmelt.spark.selecting import Selected, quantiles, select
from snowmelt.spark.session import register, session
from snowmelt.spark.standing import Standing, State

__all__ = [
    "Pipeline",
    "Selected",
    "Standing",
    "State",
    "quantiles",
    "register",
    "select",
    "session",
]
