"""`python -m tickwork` is the command line."""

from tickwork.cli import main

if __name__ == "__main__":
    main()
