"""What several callers ask at once goes as one call: the machine, and its drivers."""
