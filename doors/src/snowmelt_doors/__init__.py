"""Doors into Snowmelt for programs that speak something else.

Each door is a package of its own, with an extra of the same name. A door is a client of a cluster,
as any program is.
"""
