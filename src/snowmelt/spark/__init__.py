"""Queues as Spark's streaming sources and sinks, and pipelines of stages joined by queues."""

from snowmelt.spark.pipeline import Pipeline
from snowmelt.spark.session import register, session
from snowmelt.spark.standing import Standing, State

__all__ = ["Pipeline", "Standing", "State", "register", "session"]
