"""Three stages of processes, joined by pools: events stay where they were made."""
