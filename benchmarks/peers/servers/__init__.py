"""The servers that several peers use, each on free ports of the loopback."""
