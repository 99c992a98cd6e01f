"""A network that was silent between two nodes is a way again soon: they dial anew."""

import socket
from pathlib import Path

import pytest

from runtime.network import serving, until
from snowmelt.runtime import near


def ends_of(node):
    """After how many milliseconds without an acknowledgement each connection ends."""
    return [
        one._transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT
        )
        for one in node.server._transport.connections()
        if one.role is not None
    ]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such end")
async def test_what_nodes_say_is_acknowledged_soon_or_their_connection_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near, "POSSIBLE", False)
    async with serving(tmp_path) as node, serving(tmp_path, "n2", join=(node.address,)) as other:
        await until(lambda: node.server.view is not None and len(node.server.view.members) == 2)
        assert {*ends_of(node), *ends_of(other)} == {3_000}
