"""`python -m omnigraph_cli`."""

from omnigraph_cli.main import main

if __name__ == "__main__":
    main()
