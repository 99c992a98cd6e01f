"""What a node reads from others is what its machines take: neither knows a message more.

A message that a machine takes and no codec reads crosses every simulated wire and no real one; one
that is read and taken by nobody is a call without an answer.
"""

from pathlib import Path
from typing import Any, get_args, get_origin

from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.etcd import ANSWERS
from snowmelt.protocols.membership import Depart, KeepRecord
from snowmelt.protocols.pool import calls as pool_calls
from snowmelt.protocols.pool import peer
from snowmelt.runtime.server import NodeConfig, Server
from snowmelt.wire import codec

HERE = Address("127.0.0.1", 1)
OWN = {*ANSWERS, Depart, KeepRecord}
"""What a node hears from nobody but its own process."""


def kinds(union: Any) -> set[Any]:
    """The messages of a union; a call's are those it may carry."""
    inside = get_args(get_args(union)[0] if get_origin(union) is Call else union)
    return {union}.union(*map(kinds, inside)) - {union} if inside else {union}


def test_what_nodes_read_of_each_other_and_of_clients_is_what_they_take(tmp_path: Path) -> None:
    server = Server(NodeConfig(id=NodeId("n1"), data=tmp_path, listen=HERE))
    taken = [kind for family in server._families(HERE) for kind in family.messages]
    assert len(taken) == len(set(taken))
    assert set(taken) - OWN == kinds(codec._TO_NODES)


def test_what_processes_of_a_pool_read_of_each_other_is_what_they_take() -> None:
    own = {*pool_calls.MESSAGES, Answer}
    assert set(peer.TAKEN) - own == kinds(codec.pool_messages.Message)
