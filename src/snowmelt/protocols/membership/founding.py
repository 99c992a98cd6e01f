"""How a cluster begins: its identity is drawn, and kept before any node starts.

Rule, which goes on from those of the package:

29. A person founds a cluster, once. No node does so by starting: a disk with nothing on it may be
    one that was not mounted, and an etcd with nothing in it one whose data is lost. The identity
    stands on the disk of the node that decides, or under the prefix in etcd; each member has it in
    its views. Whoever knows one, on a disk or from a connection, refuses another.
"""

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.core.record import Change
from snowmelt.protocols.etcd import PutKey
from snowmelt.protocols.membership.disk import LEDGER, twice
from snowmelt.protocols.membership.records import CLUSTER, Founded
from snowmelt.protocols.membership.records import LEDGER as LEDGER_RECORD
from snowmelt.protocols.membership.view import Ledger, View


def on_disk(cluster: int, node: str) -> tuple[Change, ...]:
    """What an empty disk is given, so that this node decides for a new cluster."""
    return twice(LEDGER, _nobody(cluster, node).written())


def in_etcd(cluster: int, name: str) -> tuple[PutKey, ...]:
    """What an empty prefix is given, so that whoever is elected there decides for a new cluster."""
    founded = msgspec.msgpack.encode(Founded(cluster, name))
    return PutKey(CLUSTER, founded), PutKey(LEDGER_RECORD, _nobody(cluster, "").written())


def _nobody(cluster: int, decides: str) -> Ledger:
    return Ledger(View(cluster, 0, NodeId(decides), ()))
