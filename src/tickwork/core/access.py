"""Who calls, what the caller may do, and for which tenant. Every decision about access is here.

No scope implies another. An owner-bound caller is one user of a tenant: it reaches only routes that
are open to owners, and there only its own schedules.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, structs

from tickwork.core.model import Scope
from tickwork.errors import FieldError, Forbidden, InvalidInput, NotFound


class Permission(StrEnum):
    """A scope of an API key or token. `admin` is that of the operator: tenants, keys, cluster."""

    READ = "read"
    SEND = "send"
    CONSUME = "consume"
    MANAGE = "manage"
    ADMIN = "admin"


class Caller(Struct, frozen=True, kw_only=True):
    """Who makes a request: a tenant, or one user (`owner`) of it. `key_id` is the API key that the
    request has, `subject` the user whom its JWT names."""

    tenant: str
    scopes: frozenset[Permission]
    owner: str | None = None
    key_id: str | None = None
    subject: str | None = None

    @property
    def scope(self) -> Scope:
        """The scope that the verbs act in."""
        return Scope(self.tenant, self.owner)

    @property
    def is_operator(self) -> bool:
        return Permission.ADMIN in self.scopes

    @property
    def name(self) -> str:
        """The caller in the audit log."""
        return f"key {self.key_id}" if self.key_id is not None else f"user {self.subject}"


def may(caller: Caller, required: Permission, *, is_open_to_owners: bool = False) -> bool:
    """Whether a caller may use a route that needs this scope."""
    return required in caller.scopes and (caller.owner is None or is_open_to_owners)


def check_access(caller: Caller, required: Permission, *, is_open_to_owners: bool = False) -> None:
    """Raises `Forbidden` unless the caller may use a route that needs this scope."""
    if may(caller, required, is_open_to_owners=is_open_to_owners):
        return
    if required not in caller.scopes:
        raise Forbidden(f"needs_{required}", f"this needs a key with the scope {required}")
    raise Forbidden(
        "owner_bound",
        "this key or token is bound to one owner, who reaches only schedules",
    )


def acting_for(caller: Caller, tenant: str | None) -> Caller:
    """The caller in the tenant that the request names; only the operator may name another one."""
    if tenant is None or tenant == caller.tenant:
        return caller
    if not caller.is_operator:
        raise Forbidden(
            f"needs_{Permission.ADMIN}",
            "Tickwork-Tenant: only a key with the scope admin may name another tenant",
        )
    return structs.replace(caller, tenant=tenant)


def visible_owner(scope: Scope, asked: str | None) -> str | None:
    """The owner whose records are listed: the one that is asked for, or that of the scope. Raises
    `NotFound` for one that the scope does not reach."""
    if scope.owner is None:
        return asked
    if asked is not None and not scope.reaches(asked):
        raise NotFound("owner", asked)
    return scope.owner


def owner_of_new(scope: Scope, given: object, field: str = "owner") -> object:
    """The owner of a new record: the one that is given, or that of the scope. Raises `InvalidInput`
    for one that the scope does not reach."""
    if scope.owner is None:
        return given
    if given not in (None, scope.owner):
        raise InvalidInput([FieldError(field, "must be your own, or left out")])
    return scope.owner


def suspended(tenant: str) -> Forbidden:
    """The error for callers of a suspended tenant."""
    return Forbidden("tenant_suspended", f"tenant {tenant} is suspended; ask the operator")
