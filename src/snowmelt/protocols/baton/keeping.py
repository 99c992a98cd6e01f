"""Many holds of one client that are all at one node, renewed by one call: rule 13."""

from typing import Any

from snowmelt.core.instant import Instant
from snowmelt.core.names import OperationId
from snowmelt.core.node import Reply
from snowmelt.protocols.baton.calls import KEEPS_AT_ONCE, RenewedMany, RenewMany
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.ended_holds import UNKNOWN
from snowmelt.protocols.baton.names import Names
from snowmelt.protocols.calling import Declined, Elsewhere


def keep_many(
    operation: OperationId, call: RenewMany, here: NodeContext, names: Names, now: Instant
) -> tuple[Reply[Any], list[str]]:
    """Renews those that are held here still, each as if it were alone; the answer, and which."""
    where, holdings = call.where, call.holdings
    if len(holdings) > KEEPS_AT_ONCE:
        text = f"{len(holdings)} holds are too many for one call; at most {KEEPS_AT_ONCE}"
        return Reply(operation, Declined("TooLarge", text)), []
    if where.node != here.me:
        if here.life_of(where.node) == where.life:
            return Reply(operation, Elsewhere(where.node, where.address)), []
        text = f"node {where.node}, where these were held, is gone"
        return Reply(operation, Declined("BatonLost", text)), []
    lost: list[tuple[int, str]] = []
    kept: list[str] = []
    for at, holding in enumerate(holdings):
        baton = names.get(holding.name)
        if baton is None:
            lost.append((at, UNKNOWN.format(here.me)))
        elif not baton.keep(operation, holding, now):
            lost.append((at, baton.endings.why(holding.ticket)))
        else:
            kept.append(holding.name)
    return Reply(operation, RenewedMany(here.settings.lease, tuple(lost))), kept
