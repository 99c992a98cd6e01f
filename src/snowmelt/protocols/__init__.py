"""The protocol families, each a package of pure machines; `host.py` joins several."""
