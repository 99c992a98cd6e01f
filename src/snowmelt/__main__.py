"""`python -m snowmelt` is the `snowmelt` program."""

from snowmelt.cli.main import run

if __name__ == "__main__":
    run()
