"""Judges of queues in a simulated world. They see histories: calls, answers, and their times.

No module here imports a family. Each family has one adapter that turns its calls and answers into
the values of `values.py`: `families/fifo_words.py`, `families/priority_words.py`.

- `book.py`: what is common to every order. Items in, bodies out, counts of calls.
- `positions.py`, `positions_end.py`: first in, first out. Positions are told, and judged at once.
- `urgency.py`, `urgency_end.py`: most urgent first. A story is judged as a whole at its end.
- `looks.py`, `urgency_looks.py`: what somebody saw who took nothing.
- `lapses.py`: excuses by time, where a queue has one log. `copies.py`: excuses by element, where
  each element has copies of its own.
"""
