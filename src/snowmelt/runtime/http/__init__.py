"""What a node shows over HTTP, if it is asked to: metrics, and whether it lives and serves."""
