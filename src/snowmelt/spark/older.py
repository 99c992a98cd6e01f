"""A checkpoint that is older than its group is found out, and refused.

A copy was brought back, or a power cut took the end of Spark's logs: then a batch was planned, and
perhaps written, that the checkpoint does not know, and the next batch has its number. Whatever is
in that one may be lost: Parquet leaves out a number that its log has, and so does a function that
looks at it. A source can plan its own rows of the lost batch again, and no others. But it does not
know what else the query reads, so what is new in there. Hence it goes on only where a person says
that nothing is, or that the sink would notice: a queue does.

The queue remembers how far a group's items were located, which is the first that is done with a
batch whose number is in the log. So a batch with items of the group is never missed; one without
any is, since then nobody asked.
"""

from collections.abc import Mapping

from snowmelt.client.queue.group_steps import Mark
from snowmelt.core.errors import GroupHeld
from snowmelt.spark.options import SourceOptions


def check_newest(lost: Mapping[str, Mark], known: Mapping[str, Mark], given: SourceOptions) -> None:
    """Raises when a batch was planned that this checkpoint lost; unless it is to be done again."""
    if not lost or not given.fail_on_older:
        return
    name = min(lost)
    of = known[name].count if name in known else 0
    raise GroupHeld(
        f"a batch with items {of} to {lost[name].count - 1} of group {given.group!r} of queue "
        f"{name!r} was planned, and this checkpoint does not know it: it is older than the queue. "
        "Go on from the newer one. If there is none, and the query reads nothing else and puts "
        "into queues: option failOnOlderCheckpoint=false plans that batch again, with the same "
        "items. Else begin anew: release the group, and take a new checkpoint, and a new folder "
        "for Parquet; the last batch may come twice then"
    )
