"""How each family lives in the world: who is there, what load it bears, what must hold."""

from typing import Final

from snowmelt.core.errors import BadOption
from snowmelt_world.families.baton import BatonLife
from snowmelt_world.families.echo import EchoLife
from snowmelt_world.families.membership import MembershipLife
from snowmelt_world.families.multicast import MulticastLife
from snowmelt_world.families.parted import PartedLife
from snowmelt_world.families.pool import PoolLife
from snowmelt_world.families.queue import QueueLife
from snowmelt_world.life import FamilyLife

FAMILIES: Final[dict[str, type[FamilyLife]]] = {
    "baton": BatonLife,
    "echo": EchoLife,
    "membership": MembershipLife,
    "multicast": MulticastLife,
    "parted": PartedLife,
    "pool": PoolLife,
    "queue": QueueLife,
}


def family(name: str) -> type[FamilyLife]:
    """The life of a family, by its name."""
    if name not in FAMILIES:
        raise BadOption("--protocol", name, ", ".join(FAMILIES))
    return FAMILIES[name]
