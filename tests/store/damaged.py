"""What of a store can't be read."""

from snowmelt.core.record import Damaged
from snowmelt.store import Store


def damaged_in(store: Store) -> tuple[bytes, ...]:
    """The keys of all its damaged records."""
    found = store.scan(b"", b"\xff" * 64, limit=1_000_000)
    return tuple([one.key for one in found if isinstance(one, Damaged)])
