"""`python -m omnigraph_cli`."""

from omnigraph_cli.entry import run

if __name__ == "__main__":
    run()
