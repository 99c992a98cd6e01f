"""The paper's experiment, compiled: as the pool's machines do it, many hundred times as fast.

It needs numba and numpy, of the extra `lab`. What a process must remember is a few numbers in
arrays; there are no messages to make and no timers to keep, for nothing is ever lost here.

>>> from snowmelt_lab.pool.options import PoolOptions
>>> run(PoolOptions(producers=4, consumers=4, objects=1000)).objects
1000
"""

from snowmelt_lab.pool.kernel.experiment import run

__all__ = ["run"]
