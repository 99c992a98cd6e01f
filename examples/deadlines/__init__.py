"""Parcels with deadlines: whichever is due first goes first, and each is accounted for."""
