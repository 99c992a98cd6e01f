"""Skeap, Skueue and Seap as in the paper: in synchronous rounds, with the machines and in arrays.

1. *Load.* Each node makes R operations in the time of a wave, each in a round drawn by chance, for
   the time of K waves. A wave takes twice the height of the tree, in hops between nodes: from when
   the anchor gives positions until it has the next batch. What is made waits for the next wave.
2. *Machines* (`experiment.py`): `OverlayNode` in its synchronous mode with `Skeap` (`skeap.py`) as
   its family, so phases 1 to 4; blocks of one position; a get that comes first waits. Or with
   `Seap` (`seap.py`): a wave for each step of its phases, so a get waits for several.
3. *Rounds* of an operation: from the round in which it is made to that in which its node knows that
   its element is kept, has the element, or knows that there is none.
4. *Arrays* (`arrays.py`) say the same for a hundred thousand nodes: what the tree does is known
   beforehand, and routes go on without hindering each other. Not for Seap, whose waves follow from
   what was found.
5. *Consistent*: the one order of all operations keeps each node's own, and is most urgent first in
   the strong form. The machines' history is judged by the checkers; the arrays' is acted out.
   Seap's keeps what was answered before something else was asked for, in place of each node's own.
"""
