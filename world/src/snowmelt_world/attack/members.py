"""What no node would say, by a node of the cluster: the name is the attack's own."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from snowmelt.core.errors import SnowmeltError
from snowmelt.wire.greeting import Role
from snowmelt_world.attack.fields import prepare
from snowmelt_world.attack.forge import Forge
from snowmelt_world.attack.setting import AttackSetting, Target
from snowmelt_world.attack.speaking import Flood, connected, greeted, pour
from snowmelt_world.attack.tally import Tally


def attack(setting: AttackSetting, number: int, tally: Tally, goes_on: Callable[[], bool]) -> None:
    """Floods each other node with words of nodes."""
    prepare(setting)
    forge = Forge.of_nodes(setting.seed * 1_000 + number)
    forge.heard(_known(setting))
    floods = [
        Flood(_dial(setting, target), forge.loads(), tally)
        for target in setting.targets
        if target.name != setting.member
    ]
    pour(floods, goes_on)


def _dial(setting: AttackSetting, target: Target) -> Callable[[], socket.socket]:
    return lambda: greeted(setting, target, setting.member, Role.NODE, setting.node)


def _known(setting: AttackSetting) -> list[Any]:
    """The numbers and names that a member knows: view, incarnations, terms."""
    with (
        suppress(SnowmeltError),
        connected(setting.member_url, setting.honest) as cluster,
    ):
        status = cluster.status(timeout=5.0)
        view = status.view
        if view is None:
            return []
        runs = [number for one in view.members for number in _numbers(one)]
        return [view.epoch, *runs, *(str(one.id) for one in view.members)]
    return []


def _numbers(struct: Any) -> list[int]:
    some = (getattr(struct, name) for name in struct.__struct_fields__)
    return [one for one in some if type(one) is int]
