"""How much memory the nodes hold, as Linux counts it."""

from pathlib import Path

import msgspec


class Memory(msgspec.Struct, frozen=True):
    """Resident megabytes."""

    largest_node: int
    all_nodes: int


def resident_mib(pid: int) -> int:
    """What one process holds in memory; 0 where that can't be told."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return 0


def memory_of(pids: list[int]) -> Memory:
    """Of some processes."""
    each = [resident_mib(pid) for pid in pids]
    return Memory(max(each), sum(each))
