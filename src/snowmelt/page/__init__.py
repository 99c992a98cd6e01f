"""A page in the browser: all queues, one queue, the cluster, batons and pools, as a node sees them.

A node that is run with `--http` shows it. Files are as they lie in `files`; nothing is built, and
nothing is loaded from elsewhere.

1. The node looks at all of its cluster as any client does (`looking.py`): at its own machines
   without a connection (`port.py`), at the others through a client.
2. It looks once a minute, for the rates of the last hour (`watching.py`), and every few seconds
   while somebody has the page open: the more queues, the more seldom (`watching.py`).
3. What is seen is encoded once, and goes to all who look as events of one stream.
"""

from snowmelt.page.site import PageSite

__all__ = ["PageSite"]
