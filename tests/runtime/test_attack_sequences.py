"""What an attack plays call after call is played to nodes with users, and they bear it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.network import Serving
from runtime.test_users_harm import SECRETS, greeted, turn_of, two_nodes
from snowmelt_world.attack import sequences
from snowmelt_world.attack.sequences import SEQUENCES, Asker
from snowmelt_world.attack.setting import AttackSetting, Identity, Kind, Target
from snowmelt_world.attack.tally import Tally

TURN = 1.0
"""On a crowded machine; unmended, each ended a node, or had it work for longer."""


def setting_of(folder: Path, nodes: dict[str, Serving], **more: Any) -> AttackSetting:
    return AttackSetting(
        url="",
        targets=tuple([Target(name, "127.0.0.1", one.address.port) for name, one in nodes.items()]),
        kinds=(Kind.COSTS,),
        seconds=1.0,
        inputs=0,
        seed=1,
        attackers=1,
        place=str(folder),
        calm=1.0,
        attacker=Identity("shop", SECRETS["shop"]),
        memory_mib=512,
        disk_mib=512,
        turn_ms=100.0,
        rate_share=0.5,
        answer_s=10.0,
        **more,
    )


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda one: one.__name__)
async def test_a_sequence_is_played_to_its_end_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sequence: Any
) -> None:
    monkeypatch.setattr(sequences, "ITEMS", 4_096)
    tally = Tally(tmp_path / "tally")
    async with two_nodes(tmp_path) as nodes:
        setting = setting_of(tmp_path, nodes)

        def play() -> None:
            with Asker(setting, "c-plays", tally) as asker:
                sequence(asker, "mine.played")

        await asyncio.to_thread(play)
        assert tally.counts["inputs"] > 1
        for node in nodes.values():
            async with greeted(node, "ops", "c-after") as after:
                await after.stream.is_served()
            assert turn_of(node) < TURN
    tally.close()
