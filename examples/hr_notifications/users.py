"""The users of the HR app, and their tokens: JWTs signed with `HR_JWT_SECRET`."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime, timedelta

import jwt
from msgspec import Struct

AUDIENCE = "hr-notifications"
VALID = timedelta(hours=12)
SECRET = os.environ.get("HR_JWT_SECRET") or secrets.token_hex(32)
"""The key of the signatures. Without a setting tokens are good until this process ends."""


class User(Struct, frozen=True):
    """Someone who may log in."""

    id: str
    email: str
    is_admin: bool = False


USERS = {
    user.id: user
    for user in (
        User("alice", "alice@company.com"),
        User("bob", "bob@company.com"),
        User("carol", "carol@company.com", is_admin=True),
    )
}


def token_of(user: User) -> str:
    """Return a token for a user who has logged in."""
    claims = {"sub": user.id, "aud": AUDIENCE, "exp": datetime.now(UTC) + VALID}
    return jwt.encode(claims, SECRET, algorithm="HS256")


def user_of(header: str | None) -> User | None:
    """Return the user of an `Authorization` header; None for one that is not valid."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    try:
        claims = jwt.decode(
            token,
            SECRET,
            algorithms=["HS256"],
            audience=AUDIENCE,
            options={"require": ["sub", "aud", "exp"]},
        )
    except jwt.InvalidTokenError:
        return None
    return USERS.get(claims["sub"])
