"""The program that `spark-submit` runs on the driver for `snowmelt pipeline submit`: ours."""

from snowmelt.cli.main import run

if __name__ == "__main__":
    run()
