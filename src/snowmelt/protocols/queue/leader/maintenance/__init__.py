"""What a leader does to its queue as a whole, beside the calls of programs.

Settings are altered, backups are read and brought in, schedules fire, and a full disk gets room.
These are parts of a leader: they import its other parts, and `leader.py` imports them.
"""
