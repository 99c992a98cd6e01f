"""The overlay measured: its tree, its routes, its arcs, and how it changes."""
