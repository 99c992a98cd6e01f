"""What happens in the toy's collisions, and how often: what all else is derived from."""

DECAY_SHARE = 0.02
MASS = 91.2
WIDTH = 2.5
MASS_RANGE = (40.0, 200.0)
BOOST_MEAN = 8.0  # of the decaying particle's pT, which falls exponentially
RAPIDITY_MAX = 1.5  # of the decaying particle, uniform

SCATTER_SHARE = 0.15
SCATTER_PT_MIN = 15.0
SCATTER_POWER = 3.0  # P(pT > p) = (15 GeV / p)^3
ETA_MAX = 2.0  # of every track that comes from no decay, uniform

SOFT_MEAN = 5.0  # soft tracks an event, Poisson
SOFT_PT_MIN = 0.5
SOFT_PT_SCALE = 4.0
SOFT_POWER = 5.0  # P(pT > p) = (1 + (p - 0.5 GeV) / 4 GeV)^-5
