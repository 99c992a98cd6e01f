"""The fifo as a program holds it: its two faces, and the steps both drive."""
