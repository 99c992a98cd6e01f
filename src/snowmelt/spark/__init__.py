"""Queues as Spark's streaming sources and sinks."""

from snowmelt.spark.session import register, session

__all__ = ["register", "session"]
