"""A toy tracker's data, from raw events to the peak of a particle: the main job's pure part.

Nothing here knows a queue or Spark: arrays of bodies come in, arrays of bodies go out. `README.md`
tells the physics and derives how many decays must be found.
"""
