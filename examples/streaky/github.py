"""What somebody committed, by GitHub's GraphQL API."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from aiohttp import ClientSession

from examples.streaky import calling, settings
from examples.streaky.users import User
from tickwork import Permanent

# GitHub gives no more than a year at once.
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
    """When they committed in the year up to the end of that day, in repositories that count."""
    variables = {
        "login": user.login,
        "from": (at - LOOK_BACK).isoformat(),
        "to": (at + LOOK_AHEAD).isoformat(),
    }
    answer = await calling.post(
        http,
        f"{settings.GITHUB}/graphql",
        body={"query": QUERY, "variables": variables},
        headers={"Authorization": f"Bearer {user.token}"},
    )
    return _counting(answer, user)


def _counting(answer: Any, user: User) -> list[datetime]:
    if answer.get("errors") or answer["data"]["user"] is None:
        raise Permanent(f"GitHub knows no {user.login}: {answer.get('errors')}")
    collection = answer["data"]["user"]["contributionsCollection"]
    # The user's own pattern: it may be one that takes for ever. See the README on budgets.
    counts = re.compile(user.repositories)
    return [
        datetime.fromisoformat(each["occurredAt"])
        for found in collection["commitContributionsByRepository"]
        if counts.search(found["repository"]["nameWithOwner"])
        for each in found["contributions"]["nodes"]
    ]
