"""A worker, a function and a queue: it takes items, calls the function, and settles them.

Blocking (`face.py`): in threads (`loop.py`), and these in several processes (`processes.py`) if so
wished. With `await` (`face_async.py`): in tasks. What they decide is in `retrying.py`.

Rules:

1. An item is acknowledged when its handler has returned, and only then. One that the handler has
   acknowledged or given back itself is left as it is.
2. One whose handler raised is given back, counts as failed, and waits as long as `retry` says for
   that kind of error; or it is set aside as dead at once. Its reason is the traceback's last line.
3. Leases are renewed for as long as the worker is there, however long a handler takes. A worker
   that is killed renews nothing: its items are offered again when their leases end. Those are
   suspects, which are leased singly, and worked on alone in the end (`leases/suspects.py`).
4. A stop is warm: nothing is taken any more, what was leased ahead goes back at once, and what is
   in hand has `grace` seconds to be done. What is not done by then goes back and counts as no
   failure. SIGTERM and SIGINT stop so; the second of them ends it at once. The program's own
   handlers hear them too (`runtime/signals.py`). A silent node makes none of this longer: items
   that it could not be told about in a moment return when their leases end.
5. What stops programs (`SystemExit` and its like), raised by a handler, stops the worker: warmly,
   its item counted as failed, or it would end worker after worker; and `run` raises it. An async
   handler that is cancelled, and not by its worker, has failed as any other.
6. A cluster that goes away is waited for; one that never was there, for five seconds. What a
   handler did meanwhile is acknowledged late, or refused as `LeaseLost`, and then done again by
   another: at least once.
7. Each of several queues has threads, or tasks, of its own, by weight (`loops.py`). Rule 3's
   suspects are worked on alone in their queue; other queues of the process go on.
8. A handler over its `limit` is raised a `TimeoutError` in, where Python can (`limits.py`).
9. A pool counts no failures and has no dead: what failed is held for as long as it is to wait,
   which keeps its thread or task busy, and then offered again.
"""
