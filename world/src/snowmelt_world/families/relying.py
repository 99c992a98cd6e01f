"""A machine beside others in a node, which says when those that keep promises by the clock hear.

They hear of a view, and who leads, when it is sure, and not before (rule 7 of `host.py`); so judges
go by this.
"""

from typing import Any

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.node import Announce, Announced, Effect, Event
from snowmelt.protocols.host import Family
from snowmelt.protocols.membership import Leads, LeadsNoMore, View


class Relied(msgspec.Struct, frozen=True):
    """Such machines of this node go by this view from now on."""

    view: View


class ReliedLead(msgspec.Struct, frozen=True):
    """Such machines of this node go by it that this node leads from now on, or does no more."""

    leads: bool


class Relying:
    """It hears, and says so."""

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        del now
        match event:
            case Announced(View() as view):
                return [Announce(Relied(view))]
            case Announced(Leads()):
                return [Announce(ReliedLead(leads=True))]
            case Announced(LeadsNoMore()):
                return [Announce(ReliedLead(leads=False))]
            case _:
                return []

    def check(self) -> None:
        """It remembers nothing that could be wrong."""


def relying(*, fenced: bool = False) -> Family:
    """That machine; with a planted bug it believes in hints as the fenced do."""
    return Family("relying", Relying(), (), fenced=fenced)
