"""How long nobody can put after a leader is killed: ours and others', measured in the same way."""
