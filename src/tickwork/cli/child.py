"""One of several processes of an app: `python -m tickwork.cli.child DESCRIPTOR`."""

from __future__ import annotations

import sys

import click

from tickwork.cli.run import run_child
from tickwork.service.processes.child import ParentLink


def main() -> None:
    """Runs an app as one of several processes."""
    try:
        run_child(ParentLink(int(sys.argv[1])))
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
