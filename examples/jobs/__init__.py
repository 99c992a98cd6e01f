"""A few kinds of workers do urgent and patient jobs; each job is accounted for."""
