"""Judges recorded histories; knows nothing of nodes. Begin with `history.py`."""

from snowmelt.core.errors import BadHistory
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.properties import PROPERTIES, Property, check_history
from snowmelt_world.check.verdict import Invalid, Undecided, Valid, Verdict, combine

__all__ = [
    "PROPERTIES",
    "BadHistory",
    "Ended",
    "History",
    "Invalid",
    "Kind",
    "Operation",
    "Property",
    "Undecided",
    "Valid",
    "Verdict",
    "check_history",
    "combine",
]
