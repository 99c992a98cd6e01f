"""The pool as a program holds it: two faces, their objects, and this process' part in it."""
