"""What the owners of a tenant may target with their schedules, as the tenant lists it.

| entry | allows |
|---|---|
| `queue:reminders` | messages to that queue |
| `workflow:content` | runs of that workflow, also by results |
| `endpoint:billing` | webhooks and results (`on_success`, `on_failure`) to that endpoint |
| `webhook:https://hooks.example.com/in` | webhooks to that URL and the paths below it |
| `email`, `slack`, `discord`, `telegram` | that channel, to any address |

Of several channels at once, each has to be allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tickwork.core.delivery.target import (
    CHATS,
    DELIVERIES_QUEUE,
    Channel,
    ChannelsTarget,
    ChatTarget,
    EmailTarget,
    EndpointTarget,
    LostQueueTarget,
    read_envelope,
)
from tickwork.core.fields import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, shown, text_faults
from tickwork.core.limits import ENTITIES_PREFIX
from tickwork.core.schedule.entity_target import is_entity_target
from tickwork.core.schedule.fields import receiver_names
from tickwork.core.schedule.model import Definition
from tickwork.core.schedule.workflow_target import is_workflow_target, workflow_name
from tickwork.errors import FieldError, Forbidden

OWNER_TARGETS_MAX = 100

CHANNELS = frozenset({"email", *CHATS})
"""Channels that are allowed to any address."""


def check_owner_targets(targets: Sequence[str]) -> list[FieldError]:
    """The errors of a tenant's list."""
    faults: list[FieldError] = []
    if len(targets) > OWNER_TARGETS_MAX:
        faults.append(FieldError("owner_targets", f"at most {OWNER_TARGETS_MAX} entries"))
    for index, target in enumerate(targets[:OWNER_TARGETS_MAX]):
        field = f"owner_targets[{index}]"
        kind, found, rest = target.partition(":")
        if kind in ("queue", "endpoint", "entity", "workflow") and found:
            faults += text_faults(field, rest, NAME_LENGTH_MAX)
        elif kind == "webhook" and _has_host(rest):
            faults += text_faults(field, rest, TEXT_LENGTH_MAX)
        elif target not in CHANNELS:
            fault = (
                f"must be queue:NAME, endpoint:NAME, entity:NAME, workflow:NAME, "
                f"webhook:https://host/path or one of {', '.join(sorted(CHANNELS))}, "
                f"not {shown(target)}"
            )
            faults.append(FieldError(field, fault))
    return faults


def check_target(definition: Definition, allowed: Collection[str]) -> None:
    """Raises `Forbidden` if an owner may not use the target of a schedule."""
    for needed, is_allowed in _needed(definition, allowed):
        if not is_allowed:
            raise Forbidden(
                "target_not_allowed",
                f"owners of this tenant may not target {needed}; its owner_targets do not list it",
            )


def _needed(definition: Definition, allowed: Collection[str]) -> Iterator[tuple[str, bool]]:
    """What a schedule targets, also with its results, and whether that is allowed."""
    for _, kind, name in receiver_names(definition):
        yield f"{kind}:{name}", f"{kind}:{name}" in allowed
    if is_entity_target(definition):
        needed = f"entity:{definition.queue.removeprefix(ENTITIES_PREFIX)}"
        yield needed, needed in allowed
        return
    if is_workflow_target(definition):
        needed = f"workflow:{workflow_name(definition)}"
        yield needed, needed in allowed
        return
    if definition.queue != DELIVERIES_QUEUE:
        needed = f"queue:{definition.queue}"
        yield needed, needed in allowed
        return
    target = read_envelope(definition.body).target
    if isinstance(target, EndpointTarget | LostQueueTarget):
        return
    for channel in target.channels if isinstance(target, ChannelsTarget) else (target,):
        yield _channel(channel, allowed)


def _channel(channel: Channel, allowed: Collection[str]) -> tuple[str, bool]:
    match channel:
        case EmailTarget():
            return "email", "email" in allowed
        case ChatTarget(service=service):
            return service, service in allowed
        case _:
            prefixes = (
                entry.removeprefix("webhook:") for entry in allowed if entry[:8] == "webhook:"
            )
            return f"webhook:{channel.url}", any(
                _is_below(channel.url, prefix) for prefix in prefixes
            )


def _is_below(url: str, prefix: str) -> bool:
    """Whether a URL is a prefix or a path below it: `…/in` does not allow `…/inside`, and no URL
    may climb out of its prefix or spell a path in another way."""
    path = url.partition("://")[2].partition("?")[0].partition("#")[0]
    segments = path.split("/")[1:]
    if "\\" in url or "%" in path or "." in segments or ".." in segments:
        return False
    base = prefix.rstrip("/")
    return url == base or url.startswith((f"{base}/", f"{base}?"))


def _has_host(prefix: str) -> bool:
    scheme, found, rest = prefix.partition("://")
    host = rest.partition("/")[0]
    is_plain = not any(character in prefix for character in "?#%\\@ ")
    return scheme in ("http", "https") and bool(found and host) and is_plain
