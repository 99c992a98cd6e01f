"""The same examples each time, however slow the machine is."""

from hypothesis import settings

settings.load_profile("ci")
