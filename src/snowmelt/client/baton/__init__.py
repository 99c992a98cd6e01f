"""The baton as a program holds it: two faces, the steps they drive, and its renewal."""
