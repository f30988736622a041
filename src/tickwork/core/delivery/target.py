"""Targets outside: webhooks, email, chat messages, and several of these at once.

A schedule with such a target sends to one hidden queue. The body of its messages is an envelope,
`{"target": …, "payload": …}`: a retry or a replay delivers what was planned, whatever happened to
the schedule meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tickwork.core.delivery.headers import check_headers
from tickwork.core.delivery.templates import check_template
from tickwork.core.fields import Reader, shown
from tickwork.core.limits import CLAIM_NUMBER_MAX, RUN_MAX
from tickwork.core.message.backoff import Listed
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.core.options.endpoint import TIMEOUT_SECONDS_MAX
from tickwork.core.schedule.model import Retry
from tickwork.errors import FieldError, InvalidInput

DELIVERIES_QUEUE = "tickwork.deliveries"
"""Name of the hidden queue, which all tenants share."""

TIMEOUT_SECONDS = 30
"""Seconds for a delivery that is the only one of its slot."""

CHANNEL_TIMEOUT_SECONDS = 10
"""Seconds for a delivery that is one of several channels."""

DELIVERIES_SETTINGS = QueueSettings(
    max_retries=4,
    backoff=Listed((60.0, 180.0, 480.0, 1_080.0)),
    timeout_seconds=TIMEOUT_SECONDS_MAX + 60,
)

AT_LEAST_ONCE: Final = "at_least_once"
AT_MOST_ONCE: Final = "at_most_once"
"""Values of a schedule's `delivery`: a crash may repeat a delivery, or may leave its outcome
unknown."""

RETRY_BYTES_MAX = 4_096
"""Bytes that the retry of one channel may have besides its target and its payload (`FirstSent`)."""

ANSWER, CALLBACK = "answer", "callback"
"""Values of `completion`: a 2xx succeeds, or a 202 leaves the firing running until its receiver
completes it."""

COMPLETE_WITHIN_SECONDS, COMPLETE_WITHIN_SECONDS_MAX = 3_600, 7 * 86_400
"""Seconds that a receiver has to complete a firing, and the most that may be set."""

ENDPOINT_CHANNEL = "webhook"
"""Name of the only channel of a delivery to an endpoint."""

METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
CHANNELS_MAX = 10
RECIPIENTS_MAX = 50
SUBJECT_CHARACTERS_MAX = 998
CHATS = ("slack", "discord", "telegram")

CHAT_UNITS_MAX = {"slack": 40_000, "discord": 2_000, "telegram": 4_096}
"""Maximum length of a chat message. Discord and Telegram refuse more, Slack cuts it off. In UTF-16
code units, as Telegram counts: that is never less than the number of characters."""

_ONLY_WHOLE = "is only for a webhook that is the whole target, not one of several channels"
_NOT_IN_ADDRESS = ' ,;:<>()[]@"\\'


class WebhookTarget(Struct, frozen=True, tag_field="type", tag="webhook", omit_defaults=True):
    """A request to a URL, with the payload as its body."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    timeout_seconds: int | None = None
    completion: str = ANSWER
    complete_within_seconds: int | None = None
    first_byte_seconds: int | None = None

    @property
    def is_callback(self) -> bool:
        """Whether its receiver may complete it after a 202."""
        return self.completion == CALLBACK


class EmailTarget(Struct, frozen=True, tag_field="type", tag="email", omit_defaults=True):
    """An email; its texts may have placeholders."""

    to: tuple[str, ...]
    subject: str
    text: str | None = None
    html: str | None = None


class ChatTarget(Struct, frozen=True, tag_field="type", tag="chat", omit_defaults=True):
    """A message to Slack, Discord or Telegram over an incoming webhook."""

    service: str
    url: str
    text: str
    chat_id: str | None = None


Channel: TypeAlias = WebhookTarget | EmailTarget | ChatTarget


class ChannelsTarget(Struct, frozen=True, tag_field="type", tag="channels", omit_defaults=True):
    """Several channels at once. If some fail, the firing is partial; they are retried only with
    `retry_failed_channels`."""

    channels: tuple[Channel, ...]
    retry_failed_channels: bool = False


class EndpointTarget(Struct, frozen=True, tag_field="type", tag="endpoint", omit_defaults=True):
    """A request to an endpoint, by its name or id, with the payload as its body. URL, headers,
    secrets and limits are those of the endpoint."""

    endpoint: str
    completion: str = ANSWER
    complete_within_seconds: int | None = None

    @property
    def is_callback(self) -> bool:
        """Whether its receiver may complete it after a 202."""
        return self.completion == CALLBACK


class LostQueueTarget(Struct, frozen=True, tag_field="type", tag="queue", omit_defaults=True):
    """A queue that did not exist when it was to get the result of a firing; for a workflow the
    queue of its runs. No schedule has this target: only the messages of such results do."""

    queue: str


DeliveryMode: TypeAlias = Literal["at_least_once", "at_most_once"]
OutsideTarget: TypeAlias = (
    WebhookTarget | EmailTarget | ChatTarget | ChannelsTarget | EndpointTarget | LostQueueTarget
)


class FirstSent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the retry of one failed channel keeps of the message in which that channel failed: its
    ids, its slot, its attempts and how it is retried."""

    channel: str
    id: UUID
    claim: Annotated[int, Meta(ge=0, le=CLAIM_NUMBER_MAX // 2)]
    attempts: Annotated[int, Meta(ge=0, le=RUN_MAX)]
    retry: Retry | None = None
    idempotency_base: str | None = None
    schedule_id: UUID | None = None
    slot: datetime | None = None
    run: int = 0
    catch_up: bool = False


class Envelope(Struct, frozen=True):
    """The body of a delivery's message. `first` is set if it retries one of several channels,
    `delivery` if it is sent at most once."""

    target: OutsideTarget
    payload: Any = None
    first: FirstSent | UnsetType = UNSET
    delivery: DeliveryMode | UnsetType = UNSET

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels by name; none for an endpoint or a queue."""
        target = self.target
        if isinstance(target, ChannelsTarget):
            return dict(zip(names_of_channels(target.channels), target.channels, strict=True))
        if isinstance(target, (EndpointTarget, LostQueueTarget)):
            return {}
        return {_kind(target) if self.first is UNSET else self.first.channel: target}

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The names of the channels that are sent to; an endpoint is one."""
        if isinstance(self.target, EndpointTarget):
            return (ENDPOINT_CHANNEL,)
        return tuple(self.channels)

    @property
    def reserved_bytes(self) -> int:
        """Bytes by which a retry of one of its channels may be larger than itself."""
        target = self.target
        is_retried = isinstance(target, ChannelsTarget) and target.retry_failed_channels
        return RETRY_BYTES_MAX if is_retried else 0

    @property
    def is_at_most_once(self) -> bool:
        """Whether no channel may be sent to twice."""
        return self.delivery == AT_MOST_ONCE


_ENVELOPES = msgspec.json.Decoder(Envelope)


def read_envelope(body: bytes) -> Envelope:
    """The envelope of a message. Raises `msgspec.ValidationError`."""
    return _ENVELOPES.decode(body)


def check_edited_envelope(before: bytes, after: bytes) -> None:
    """Raises `InvalidInput` if an edit changes more of an envelope than its payload and whether it
    is delivered at most once: the target was checked when its schedule was made."""
    try:
        old, new = read_envelope(before), read_envelope(after)
    except msgspec.MsgspecError as error:
        raise InvalidInput([FieldError("body", f"is not a delivery: {error}")]) from None
    is_wrong = isinstance(new.target, LostQueueTarget) and new.is_at_most_once
    if (new.target, new.first) != (old.target, old.first) or is_wrong:
        fault = (
            "may change the payload and delivery only; for another target, change the schedule "
            "and trigger it"
        )
        raise InvalidInput([FieldError("body", fault)])


def names_of_channels(channels: tuple[Channel, ...]) -> tuple[str, ...]:
    """The names of all channels: a type that occurs once has no number."""
    kinds = [_kind(channel) for channel in channels]
    return tuple(
        kind if kinds.count(kind) == 1 else f"{kind}[{kinds[:at].count(kind)}]"
        for at, kind in enumerate(kinds)
    )


def _kind(channel: Channel) -> str:
    """The name of a channel that is the only one of its type."""
    if isinstance(channel, ChatTarget):
        return channel.service
    return "email" if isinstance(channel, EmailTarget) else "webhook"


OUTSIDE_TYPES = ("webhook", "email", *CHATS, "channels")
"""Types of targets that are delivered outside."""

_FIELDS: dict[str, frozenset[str]] = {
    "webhook": frozenset({
        "type", "url", "endpoint", "method", "headers", "timeout_seconds", "first_byte_seconds",
        "completion", "complete_within_seconds",
    }),
    "email": frozenset({"type", "to", "subject", "text", "html"}),
    "channels": frozenset({"type", "channels", "retry_failed_channels"}),
    **{name: frozenset({"type", "url", "text", "chat_id"}) for name in CHATS},
}  # fmt: skip
_HINTS = {"delivery": "it is a field of the schedule, beside target"}


def read_outside_target(
    target: Reader, kind: str, usual_seconds: int = TIMEOUT_SECONDS
) -> OutsideTarget | None:
    """Reads a target of one of `OUTSIDE_TYPES`; the reader collects the faults. A delivery may take
    `usual_seconds` unless the target says otherwise.

    Addresses are checked by the guard, where the schedule is created: what is allowed is a setting
    of the installation.
    """
    target.refuse_unknown(_FIELDS[kind], _HINTS)
    match kind:
        case "webhook":
            return _webhook(target, usual_seconds)
        case "email":
            return _email(target)
        case "channels":
            return _channels(target)
        case _:
            return _chat(target, kind)


def read_delivery(
    schedule: Reader, kind: str | None, target: OutsideTarget | None
) -> DeliveryMode | UnsetType:
    """Reads the `delivery` of a schedule with a target of that type; `UNSET` for at least once."""
    if not schedule.has("delivery"):
        return UNSET
    if schedule.one_of("delivery", (AT_LEAST_ONCE, AT_MOST_ONCE)) != AT_MOST_ONCE:
        return UNSET
    fault = None
    if kind not in OUTSIDE_TYPES:
        fault = f"is only for targets outside: {', '.join(OUTSIDE_TYPES)}"
    elif isinstance(target, WebhookTarget | EndpointTarget) and target.is_callback:
        fault = f"cannot be combined with the target's completion {CALLBACK}"
    elif isinstance(target, ChannelsTarget) and target.retry_failed_channels:
        fault = "cannot be combined with the target's retry_failed_channels"
    if fault is not None:
        schedule.fault("delivery", f"{AT_MOST_ONCE} {fault}")
    if schedule.has("retry"):
        schedule.fault(
            "retry", f"cannot be combined with delivery {AT_MOST_ONCE}: it has one attempt"
        )
    return AT_MOST_ONCE


def email_fault(tenant: str, emails_per_day: int | None) -> str | None:
    """Why a tenant may not send email at all, or None. It is sent from the operator's address, so a
    tenant other than `default` needs a quota."""
    if emails_per_day or (emails_per_day is None and tenant == DEFAULT.tenant):
        return None
    return (
        f"email is off for the tenant {tenant}, because it has no daily quota: the operator sets "
        f"emails_per_day (tickwork tenants limits {tenant} --emails-per-day N); or use a webhook"
    )


DAY_SECONDS = 86_400.0
"""Seconds of a day of UTC."""


def email_count(target: EmailTarget) -> int:
    """Number of emails of a delivery, as a quota counts them: one for each address."""
    return len(target.to)


def seconds_until_next_day(now: datetime) -> float:
    """Seconds until the quota of emails starts again, at midnight UTC."""
    return DAY_SECONDS - now.timestamp() % DAY_SECONDS


def has_email(target: OutsideTarget) -> bool:
    """Whether a delivery to a target sends email."""
    several = target.channels if isinstance(target, ChannelsTarget) else (target,)
    return any(isinstance(channel, EmailTarget) for channel in several)


def urls_of(target: OutsideTarget) -> list[tuple[str, str]]:
    """The URLs of a target, each with the path of its field."""
    if isinstance(target, ChannelsTarget):
        return [
            (f"channels[{at}].{field}", url)
            for at, channel in enumerate(target.channels)
            for field, url in urls_of(channel)
        ]
    return [("url", target.url)] if isinstance(target, WebhookTarget | ChatTarget) else []


def render_target(target: OutsideTarget) -> dict[str, Any]:
    """The fields of a target, as they are given."""
    fields: dict[str, Any] = msgspec.to_builtins(target)
    if isinstance(target, ChannelsTarget):
        fields["channels"] = [render_target(channel) for channel in target.channels]
    if isinstance(target, ChatTarget):
        fields["type"] = fields.pop("service")
    if isinstance(target, EndpointTarget):
        fields["type"] = "webhook"
    return fields


def _endpoint(target: Reader) -> EndpointTarget | None:
    for other in ("headers", "method", "timeout_seconds", "first_byte_seconds", "url"):
        if target.has(other):
            target.fault(other, "cannot be combined with endpoint, which has its own; remove it")
    name = target.text("endpoint")
    completion, within = _completion(target)
    return None if name is None else EndpointTarget(name, completion, within)


def _webhook(target: Reader, usual_seconds: int) -> WebhookTarget | EndpointTarget | None:
    if target.has("endpoint"):
        return _endpoint(target)
    url = target.text("url")
    method = target.one_of("method", METHODS) if target.has("method") else "POST"
    headers = _headers(target)
    seconds = None
    if target.has("timeout_seconds"):
        seconds = target.integer("timeout_seconds", 1, TIMEOUT_SECONDS_MAX)
    first_byte = None
    if target.has("first_byte_seconds"):
        first_byte = target.integer("first_byte_seconds", 1, TIMEOUT_SECONDS_MAX)
        if fault := first_byte_fault(first_byte, seconds or usual_seconds):
            target.fault("first_byte_seconds", fault)
    completion, within = _completion(target)
    if url is None or method is None or headers is None:
        return None
    return WebhookTarget(url, method, headers, seconds, completion, within, first_byte)


def first_byte_fault(first_byte_seconds: int | None, timeout_seconds: int) -> str | None:
    """Why an answer cannot have so long to begin, if it may take `timeout_seconds` as a whole."""
    if first_byte_seconds is None or first_byte_seconds <= timeout_seconds:
        return None
    return f"must be at most timeout_seconds ({timeout_seconds}), not {first_byte_seconds}"


def _completion(target: Reader) -> tuple[str, int | None]:
    completion = ANSWER
    if target.has("completion"):
        completion = target.one_of("completion", (ANSWER, CALLBACK)) or ANSWER
    if not target.has("complete_within_seconds"):
        return completion, None
    if completion != CALLBACK:
        target.fault("complete_within_seconds", f'needs completion "{CALLBACK}"')
    most = COMPLETE_WITHIN_SECONDS_MAX
    return completion, target.integer("complete_within_seconds", 1, most)


def _headers(target: Reader) -> dict[str, str] | None:
    given = target.value("headers")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        target.fault("headers", f"must be an object of texts, not {shown(given)}")
        return None
    try:
        check_headers(given)
    except InvalidInput as error:
        _repeat(target, error)
        return None
    return dict(given)


def _email(target: Reader) -> EmailTarget | None:
    given = target.value("to")
    to = (given,) if isinstance(given, str) else given
    if not isinstance(to, list | tuple) or not 1 <= len(to) <= RECIPIENTS_MAX:
        target.fault("to", f"must be 1 to {RECIPIENTS_MAX} email addresses")
        return None
    for at, address in enumerate(to):
        if not is_address(address):
            target.fault(f"to[{at}]", f"is not an email address: {shown(address)}")
    subject = target.text("subject")
    if subject is not None and (len(subject) > SUBJECT_CHARACTERS_MAX or not subject.isprintable()):
        target.fault("subject", f"must be one line of at most {SUBJECT_CHARACTERS_MAX} characters")
    if not target.has("text") and not target.has("html"):
        target.fault("text", "is missing; give text, html, or both")
    for name in ("subject", "text", "html"):
        _check_text(target, name)
    if subject is None:
        return None
    text, html = target.value("text"), target.value("html")
    return EmailTarget(tuple(map(str, to)), subject, _text(text), _text(html))


def _chat(target: Reader, service: str) -> ChatTarget | None:
    url, text = target.text("url"), target.text("text")
    _check_text(target, "text")
    chat = target.text("chat_id") if target.has("chat_id") else None
    if service == "telegram" and chat is None:
        target.fault("chat_id", "is missing; Telegram needs the chat")
    if service != "telegram" and chat is not None:
        target.fault("chat_id", "is only for telegram")
    if url is None or text is None:
        return None
    return ChatTarget(service, url, text, chat)


def _channels(target: Reader) -> ChannelsTarget | None:
    given = target.value("channels")
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= CHANNELS_MAX:
        target.fault("channels", f"must be a list of 1 to {CHANNELS_MAX} targets")
        return None
    read: list[Channel] = []
    single = [type_ for type_ in OUTSIDE_TYPES if type_ != "channels"]
    usual_seconds = TIMEOUT_SECONDS if len(given) == 1 else CHANNEL_TIMEOUT_SECONDS
    for at, channel in enumerate(given):
        name = f"channels[{at}]"
        kind = channel.get("type") if isinstance(channel, Mapping) else None
        if kind is not None and kind not in single:
            target.nested(name, channel).one_of("type", single)
            continue
        if kind is None:
            target.fault(name, f"must be a target whose type is one of {', '.join(single)}")
            continue
        if channel.get("completion") is not None:
            target.fault(f"{name}.completion", _ONLY_WHOLE)
        if channel.get("endpoint") is not None:
            target.fault(f"{name}.endpoint", _ONLY_WHOLE)
            continue
        found = read_outside_target(target.nested(name, channel), str(kind), usual_seconds)
        if found is not None and not isinstance(
            found, ChannelsTarget | EndpointTarget | LostQueueTarget
        ):
            read.append(found)
    retries = (
        target.boolean("retry_failed_channels") if target.has("retry_failed_channels") else False
    )
    if len(read) < len(given):
        return None
    return ChannelsTarget(tuple(read), bool(retries))


def is_address(given: object) -> bool:
    """Whether a value looks like one email address."""
    if not isinstance(given, str) or not given.isprintable() or len(given) > 320:
        return False
    local, _, domain = given.partition("@")
    return bool(local and domain) and not any(
        character in f"{local}{domain}" for character in _NOT_IN_ADDRESS
    )


def _check_text(target: Reader, name: str) -> None:
    if target.has(name):
        try:
            check_template(target.value(name), field=name)
        except InvalidInput as error:
            _repeat(target, error)


def _repeat(target: Reader, error: InvalidInput) -> None:
    """Adds the faults of an error, under the target's own name."""
    for fault in error.errors:
        target.fault(fault.field, fault.message)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
