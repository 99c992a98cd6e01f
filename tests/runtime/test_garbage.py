"""A node's looks for garbage go through what came since the last, and now and then through all."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt.aio
from runtime.network import Stranger, serving, until
from snowmelt.runtime import server
from snowmelt.runtime.connection import LoopConnection
from snowmelt.runtime.memory import GarbageLooks


class Looked:
    """Through how many objects each look through the old went."""

    def __init__(self) -> None:
        self.through: list[int] = []

    def told(self, phase: str, look: dict[str, Any]) -> None:
        if phase == "start" and look["generation"] == 2:
            self.through.append(sum(len(gc.get_objects(one)) for one in range(3)))


@pytest.fixture
def looked() -> Iterator[Looked]:
    """As it was before, whatever a test has begun."""
    before, thresholds, watch = list(gc.callbacks), gc.get_threshold(), Looked()
    gc.collect()
    gc.freeze()
    yield watch
    gc.callbacks[:] = before
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def test_a_look_goes_through_what_came_since_the_last_one(looked: Looked) -> None:
    GarbageLooks().begin()
    gc.callbacks.append(looked.told)
    kept = [[] for _ in range(300_000)]
    assert len(looked.through) > 5, "there were looks"
    assert max(looked.through) < 50_000, f"of {len(kept)} objects that live"


ROUND = """
import gc
from snowmelt.runtime.memory import GarbageLooks

class Ring:
    def __init__(self):
        self.own = self

GarbageLooks(room=20_000).begin()
lives = gc.get_freeze_count()
for _ in range(40):
    rings = [Ring() for _ in range(20_000)]  # they outlive a look, and are given up then
    most = max(gc.get_freeze_count(), locals().get("most", 0))
assert most > lives + 40_000, "garbage was set aside"
assert most < 2 * (lives + 40_000) + 20_000 + 40_000, (lives, most)
"""


def test_what_is_set_aside_and_is_garbage_is_found_when_it_is_too_much() -> None:
    """In a process of its own: this one holds millions of objects."""
    subprocess.run([sys.executable, "-c", ROUND], check=True, timeout=60)


@pytest.mark.usefixtures("looked")
def test_a_node_begins_with_all_that_is_loaded_set_aside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gc.unfreeze()

    async def serves(*_: object) -> None:
        assert gc.get_freeze_count() > 10_000
        kept = [[] for _ in range(100_000)]
        assert len(gc.get_objects()) < len(kept), "what lives long is set aside, too"

    monkeypatch.setattr(server, "_serve", serves)
    config = server.NodeConfig(id=server.NodeId("n1"), listen=server.Address("", 0), data=tmp_path)
    server.run(config)


async def test_what_ends_again_and_again_is_no_garbage_that_has_to_be_found(tmp_path: Path) -> None:
    """Rule 3: clients and strangers that came and went, whatever they said."""
    async with serving(tmp_path) as node:
        gc.collect()
        gc.disable()
        try:
            for number in range(5):
                async with snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster:
                    await cluster.fifo("jobs").put_many([b"x" * 500_000, b"two"])
                    with pytest.raises(snowmelt.Empty):
                        await cluster.fifo(f"other{number}").get(timeout=0)
                async with await Stranger.dial(node.address) as stranger:
                    stranger.send(b"no word of ours, and so the connection ends")
                    await stranger.gone()
                async with await Stranger.dial(node.address) as stranger:
                    await stranger.greet()
                    stranger.send(b"no word of ours, and so the connection ends")
                    await stranger.gone()
            await until(lambda: not _connections())
        finally:
            gc.enable()


def _connections() -> list[LoopConnection]:
    return [one for one in gc.get_objects() if isinstance(one, LoopConnection)]
