"""Who is in the pools, as the nodes that introduce their processes see it, as steps.

>>> from snowmelt.client.connection.steps import run
>>> from snowmelt.protocols.pool.introductions import PoolStatus
>>> class Node:
...     def call(self, body, timeout, target=None, weight=0):
...         return PoolStatus(body.pool, (), (), ())
>>> run(Node(), describe("frames", timeout=1.0)).name
'frames'
"""

from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.steps import Query, Steps
from snowmelt.core.errors import Unavailable
from snowmelt.core.instant import later, seconds
from snowmelt.core.names import contact
from snowmelt.protocols.membership import GetStatus, Status
from snowmelt.protocols.pool.introductions import DescribePool, ListPools, Pools, PoolStatus
from snowmelt.protocols.pool.settings import pool_name
from snowmelt.runtime.clock import seconds_until, steady_now


def describe(name: str, timeout: float = TIMEOUT) -> Steps[PoolStatus]:
    """One pool; one that nobody is in is as good as any other."""
    status: PoolStatus = yield Query(DescribePool(pool_name(name)), timeout)
    return status


def pools(timeout: float = TIMEOUT) -> Steps[list[PoolStatus]]:
    """All pools that somebody is in, sorted by name. Every node is asked for those it introduces.

    When one is down another answers in its place; the pools of the down one are reported by the
    node that takes them over.
    """
    end = later(steady_now(), seconds(max(0.0, checked(timeout))))
    status: Status = yield Query(GetStatus(), timeout)
    if status.view is None:
        raise Unavailable(f"{status.node} has had no view of the cluster yet")
    found: dict[str, PoolStatus] = {}
    for member in status.view.members:
        told: Pools = yield Query(ListPools(), seconds_until(end), contact(member.address))
        for pool in told.pools:
            found.setdefault(pool.name, pool)
    return [found[name] for name in sorted(found)]
