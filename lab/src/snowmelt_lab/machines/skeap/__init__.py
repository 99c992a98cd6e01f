"""Skeap as the paper has it: numbered priorities, and Skueue, which has one of them.

Operations climb in batches (`batches.py`) and the anchor gives them positions (`anchor.py`). What
is put and got lies at the hash of its position, in the overlay's table; a node's own part is
`snowmelt_lab/priority/skeap.py`.
"""
