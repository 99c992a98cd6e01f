"""A node whose disk fails ends, with a line of log and an exit code, and answers nobody."""

import asyncio
import logging
from pathlib import Path

import pytest

from runtime.failing import FAILED, Failing
from runtime.network import ANYWHERE, QUICK
from snowmelt.core.errors import StoreDamaged, StoreError
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Requested
from snowmelt.protocols.echo import Recall, Remember
from snowmelt.runtime.folders import found_on_disk
from snowmelt.runtime.server import NodeConfig, Server

SELF = OperationId(NodeId("n1"), 1)


@pytest.mark.parametrize(
    ("fails", "call", "error"),
    [
        ("writes", Remember("a", b"1"), StoreError),
        ("reads", Recall("a"), StoreDamaged),
    ],
)
async def test_a_node_whose_disk_fails_ends_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fails: str, call: object, error: type
) -> None:
    found_on_disk(tmp_path / "n1", NodeId("n1"))
    server = Server(
        NodeConfig(id=NodeId("n1"), data=tmp_path / "n1", listen=ANYWHERE, settings=QUICK)
    )
    caplog.set_level(logging.CRITICAL, "snowmelt")
    up = asyncio.Event()
    running = asyncio.ensure_future(server.serve(lambda _: up.set()))
    await up.wait()
    assert server._store is not None
    assert server._driver is not None
    setattr(Failing(server._store), fails, False)
    server._driver.handle(Requested(SELF, call))
    with pytest.raises(error, match=FAILED) as raised:
        await running
    assert raised.value.exit_code == 7
    (line,) = caplog.records
    assert line.getMessage().startswith("halted: node n1, error ")
    assert FAILED in line.fields["reason"]
