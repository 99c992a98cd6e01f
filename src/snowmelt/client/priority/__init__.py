"""The priority queue as a program holds it: its two faces, and the steps both drive."""
