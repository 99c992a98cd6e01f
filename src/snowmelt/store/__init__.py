"""A node's durable records: an ordered map of bytes that survives crashes and knows damage.

Begin with `durable.py`, the store itself; `commit.py` is the thread that flushes once for all that
wait. The others are one idea each. `log.py` is the file that makes a small commit safe before the
engine has it, `table.py` what readers see of it meanwhile. `seal.py` has the checksums, `stamp.py`
the version, `folder.py` one process to a folder. `audit.py` is the look at the file before the
engine may touch it, `room.py` what a full disk means, `shrinking.py` how the disk gets back what
was erased, `changes.py` what may be asked.
"""

from snowmelt.store.commit import Completion, GroupCommit
from snowmelt.store.durable import Recovered, Statistics, Store

__all__ = ["Completion", "GroupCommit", "Recovered", "Statistics", "Store"]
