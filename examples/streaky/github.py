"""Reads a user's commits from GitHub's GraphQL API."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from aiohttp import ClientSession

from examples.streaky import http_calls, settings
from examples.streaky.users import User
from tickwork import Permanent

# GitHub returns at most one year per request.
LOOK_BACK = timedelta(days=364)
LOOK_AHEAD = timedelta(days=1)

QUERY = """
query ($login: String!, $from: DateTime!, $to: DateTime!) {
  user(login: $login) {
    contributionsCollection(from: $from, to: $to) {
      commitContributionsByRepository(maxRepositories: 100) {
        repository { nameWithOwner }
        contributions(first: 100) { nodes { occurredAt commitCount } }
      }
    }
  }
}
"""


async def commits(http: ClientSession, user: User, at: datetime) -> list[datetime]:
    """Return the times of a year's commits, up to the end of that day, in matching repositories."""
    variables = {
        "login": user.login,
        "from": (at - LOOK_BACK).isoformat(),
        "to": (at + LOOK_AHEAD).isoformat(),
    }
    response = await http_calls.post(
        http,
        f"{settings.GITHUB}/graphql",
        body={"query": QUERY, "variables": variables},
        headers={"Authorization": f"Bearer {user.token}"},
    )
    return _commit_times(response, user)


def _commit_times(response: Any, user: User) -> list[datetime]:
    if response.get("errors") or response["data"]["user"] is None:
        raise Permanent(f"GitHub has no user {user.login}: {response.get('errors')}")
    collection = response["data"]["user"]["contributionsCollection"]
    # The user's own pattern may take forever. The CPU limit of the process ends it.
    pattern = re.compile(user.repositories)
    return [
        datetime.fromisoformat(node["occurredAt"])
        for entry in collection["commitContributionsByRepository"]
        if pattern.search(entry["repository"]["nameWithOwner"])
        for node in entry["contributions"]["nodes"]
    ]
