"""A cluster of one inside the program that uses it, blocking and with await."""
