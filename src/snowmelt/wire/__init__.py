"""Bytes to messages and back: frames, the first words of a connection, and who may say what.

Begin at `connection.py`, which is one end of a connection without its socket.

Nothing here opens a socket; `snowmelt.runtime` and `snowmelt.client` feed it what they read.
"""
