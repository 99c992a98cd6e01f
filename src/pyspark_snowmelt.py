"""Makes `format("snowmelt")` known to Spark without a call.

Spark imports each top-level module whose name begins with `pyspark_`, once a session, and registers
the data source that it calls `DefaultSource`.
"""

from snowmelt.spark.datasource import SnowmeltDataSource as DefaultSource

__all__ = ["DefaultSource"]
