"""Bytes to messages and back: frames, the first words of a connection, and who may say what.

Nothing here opens a socket; `snowmelt.runtime` and `snowmelt.client` feed it what they read.
"""
