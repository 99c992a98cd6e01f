"""Orders become bills, and bills become letters, in steps: each once, whatever is killed."""
