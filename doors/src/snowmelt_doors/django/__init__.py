"""A backend for Django's tasks, and the worker that runs them.

`framework.py` finds the tasks of Django 6, or of the backport `django-tasks`. `backend.py` is what
`TASKS` names, `records.py` what is kept of a task, `running.py` runs one. How Django's words are
ours, in rules:

1. A queue is a priority queue, NAMESPACE.NAME. Priorities are Django's, -100 to 100, the largest
   first. A task with `run_after` waits in the cluster until then.
2. `enqueue` returns once the task is safe. It keeps a record of the task first, and then puts it:
   so a record that says `READY` may belong to a task that was never put, when `enqueue` raised.
   In a transaction it does not wait for the commit; `transaction.on_commit(partial(...))` does.
3. A record says what became of a task. It can be found for `retention` seconds after it was written
   last: when the task was enqueued, began, or ended (`results.py`).
4. A task runs at least once. One whose worker is killed runs again when its lease ends, and its
   record has each worker's id. One that kills its worker `max_deliveries` times (20) is dead: its
   record says `RUNNING` until it is gone, and `snowmelt peek --dead` shows it.
5. A task that raises has failed, and is not tried again: Django's tasks have no retries. What can't
   be recorded, since no node answers, is run again later.
6. A task over the worker's `--limit` fails with `TimeoutError`, at its next step in Python.
7. A worker that is stopped takes nothing more, gives back what it has not begun, and waits
   `--grace` seconds for what it has in hand. Database connections are looked at before and after
   each task.
"""
