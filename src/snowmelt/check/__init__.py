"""Judges recorded histories; knows nothing of nodes. Begin with `history.py`."""

from snowmelt.check.history import Ended, History, Kind, Operation
from snowmelt.check.properties import PROPERTIES, Property, check_history
from snowmelt.check.verdict import Invalid, Undecided, Valid, Verdict, combine
from snowmelt.core.errors import BadHistory

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
