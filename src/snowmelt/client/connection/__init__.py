"""How a program is connected: the address, the two clients, and what a fork leaves."""
