"""`python -m examples.hr_notifications.run` serves the API and prints a token for each user."""

from __future__ import annotations

import argparse

import uvicorn

from examples.hr_notifications.api import api
from examples.hr_notifications.users import USERS, token_of


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m examples.hr_notifications.run")
    parser.add_argument("--port", type=int, default=8080)
    asked = parser.parse_args()
    for user in USERS.values():
        print(f"{user.id}={token_of(user)}", flush=True)
    uvicorn.run(api, host="127.0.0.1", port=asked.port, log_level="warning")


if __name__ == "__main__":
    main()
