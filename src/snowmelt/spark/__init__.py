"""Queues as Spark's sources and sinks, and pipelines of stages."""

from snowmelt.spark.pipeline import Pipeline
from snowmelt.spark.session import register, session
from snowmelt.spark.standing import Standing, State

__all__ = ["Pipeline", "Standing", "State", "register", "session"]
