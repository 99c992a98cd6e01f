"""Two sources of Snowmelt beside each other: what each of the two programs does."""
