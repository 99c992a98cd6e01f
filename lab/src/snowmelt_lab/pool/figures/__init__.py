"""The paper's figures 2 to 9, again: simulated points with their intervals, and the models' lines.

`plan` says what a figure is made of, `paper` which figures there are, `results` brings the points
and what came of them together, `picture` draws, `export` writes all of it into a folder.
"""
