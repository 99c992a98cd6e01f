"""A worker's process: it sends the parcel that is due first, again and again.

What it gets it holds alone until it says that it is sent. If it is killed before that its lease
ends, and somebody else sends the parcel: at its old place, by its deadline.
"""

import json
import time

import snowmelt

PASSING = (
    snowmelt.Empty,
    snowmelt.LeaseLost,
    snowmelt.OutcomeUnknown,
    snowmelt.Unavailable,
    snowmelt.Unreachable,
)
"""What a worker goes on after: the parcel comes again, to this one or to another."""


def work(url: str, name: str) -> None:
    """Works until it is ended."""
    with snowmelt.connect(url) as cluster:
        parcels, sent = cluster.priority("parcels"), cluster.fifo("sent")
        while True:
            try:
                with parcels.get(timeout=1) as parcel:
                    order = json.loads(parcel.body)
                    time.sleep(order["seconds"])
                    told = {"number": order["number"], "failures": parcel.failures, "worker": name}
                    sent.put(
                        json.dumps({**told, "due": parcel.priority, "at": time.time()}).encode()
                    )
            except PASSING:
                continue
