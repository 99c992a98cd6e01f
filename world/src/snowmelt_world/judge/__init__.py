"""Judges of queues in a simulated world. They see histories: calls, answers, and their times.

No module here imports a family. Each family has one adapter that turns its calls and answers into
the values of `values.py`: `families/fifo_words.py`.

- `book.py`: what is common to every order. Items in, bodies out, counts of calls.
- `positions.py`, `positions_end.py`: positions are told, and judged at once.
- `looks.py`: what somebody saw who took nothing.
- `lapses.py`: excuses by time.
"""
