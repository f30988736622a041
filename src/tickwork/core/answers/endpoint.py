"""Endpoints as a user sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from msgspec import Struct, structs

from tickwork.core.answers.ids import Id, Prefix
from tickwork.core.delivery.endpoint import Endpoint, EndpointSettings, Health


class EndpointAnswer(EndpointSettings, frozen=True, kw_only=True, omit_defaults=False):
    """An endpoint with its settings and its health. `disabled_reason` is set while it is disabled.

    `secret` is only in the answer to its creation: what its receiver checks signatures with. That
    is the signing secret, `whsec_…`, or with the signature `v1a` the public key, `whpk_…`.
    """

    id: Id
    name: str
    health: Health
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime
    updated_at: datetime
    secret: str | None = None

    @classmethod
    def of(cls, endpoint: Endpoint, secret: str | None = None) -> Self:
        """The answer for a stored endpoint."""
        settings: dict[str, Any] = structs.asdict(endpoint.settings)
        return cls(
            **settings,
            id=Id.of(Prefix.ENDPOINT, endpoint.id),
            name=endpoint.name,
            health=endpoint.health,
            disabled_at=endpoint.disabled_at,
            disabled_reason=endpoint.disabled_reason,
            created_at=endpoint.created_at,
            updated_at=endpoint.updated_at,
            secret=secret,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, id={str(self.id)!r})"


class CreatedEndpoint(EndpointAnswer, frozen=True, kw_only=True):
    """A new endpoint with its secret, which is not shown again."""

    secret: str


class Secret(Struct, frozen=True):
    """A signing secret, which is not shown again. The old one stays valid for a day."""

    secret: str

    def __repr__(self) -> str:
        return "Secret('***')"


class Recovered(Struct, frozen=True):
    """How many deliveries are sent again."""

    recovered: int


class DeletedEndpoint(Struct, frozen=True):
    """How many deliveries waited."""

    waiting: int
