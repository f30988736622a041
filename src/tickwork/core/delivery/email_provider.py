"""Email over HTTP: the providers, described as data, and the request that sends an email.

A provider's `shape` is the JSON that it takes. A text that starts with `$` stands for a value of
the email; what an email does not have is left out.

| value | of the email |
|---|---|
| `$sender`, `$sender_address`, `$sender_name` | `Shop <shop@example.com>`, and its two parts |
| `$to`, `$to_joined`, `$to_objects` | a list, a text with commas, a list of `{"email": …}` |
| `$subject`, `$text`, `$html`, `$message_id` | |

Each email has an `Idempotency-Key`, which is the same for every attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tickwork.core.delivery.redact import header_secrets, url_secrets
from tickwork.core.delivery.request import EmailRequest, WebhookRequest


class Provider(Struct, frozen=True, kw_only=True):
    """How a provider takes an email: where, with which key, in which form. Without a `url` it is
    a setting."""

    url: str | None = None
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    shape: Mapping[str, Any]


GENERIC = "http"
"""Name of a provider that takes our own form."""

PROVIDERS: Mapping[str, Provider] = {
    GENERIC: Provider(
        shape={
            "from": "$sender",
            "to": "$to",
            "subject": "$subject",
            "text": "$text",
            "html": "$html",
            "message_id": "$message_id",
        },
    ),
    "resend": Provider(
        url="https://api.resend.com/emails",
        shape={
            "from": "$sender",
            "to": "$to",
            "subject": "$subject",
            "text": "$text",
            "html": "$html",
            "headers": {"Message-ID": "$message_id"},
        },
    ),
    "postmark": Provider(
        url="https://api.postmarkapp.com/email",
        key_header="X-Postmark-Server-Token",
        key_prefix="",
        shape={
            "From": "$sender",
            "To": "$to_joined",
            "Subject": "$subject",
            "TextBody": "$text",
            "HtmlBody": "$html",
            "Headers": [
                {"Name": "Message-ID", "Value": "$message_id"},
                {"Name": "X-PM-KeepID", "Value": "true"},
            ],
        },
    ),
    "sendgrid": Provider(
        url="https://api.sendgrid.com/v3/mail/send",
        shape={
            "personalizations": [{"to": "$to_objects"}],
            "from": {"email": "$sender_address", "name": "$sender_name"},
            "subject": "$subject",
            "content": [
                {"type": "text/plain", "value": "$text"},
                {"type": "text/html", "value": "$html"},
            ],
            "custom_args": {"message_id": "$message_id"},
        },
    ),
}


def provider_request(
    provider: Provider, request: EmailRequest, *, url: str, key: str
) -> WebhookRequest:
    """The request that asks a provider to send an email."""
    name, _, rest = request.sender.rpartition("<")
    values = {
        "sender": request.sender,
        "sender_address": rest.strip(" >"),
        "sender_name": name.strip(' "') or None,
        "to": [*request.to],
        "to_joined": ", ".join(request.to),
        "to_objects": [{"email": address} for address in request.to],
        "subject": request.subject,
        "text": request.text,
        "html": request.html,
        "message_id": request.message_id,
    }
    return WebhookRequest(
        url=url,
        headers={
            "Content-Type": "application/json",
            "Accept": "application/json",
            provider.key_header: f"{provider.key_prefix}{key}",
            "Idempotency-Key": request.message_id.strip("<>"),
        },
        body=msgspec.json.encode(_filled(provider.shape, values)),
        timeout_seconds=request.timeout_seconds,
        secrets=header_secrets(key) | url_secrets(url),
    )


def _filled(shape: Any, values: Mapping[str, Any]) -> Any:
    """A shape with the values of an email. Without its value a field is left out, and so is an
    item of a list."""
    if isinstance(shape, str):
        return values[shape[1:]] if shape.startswith("$") else shape
    if isinstance(shape, Mapping):
        filled = {name: _filled(part, values) for name, part in shape.items()}
        return {name: value for name, value in filled.items() if value is not None}
    items = [(part, _filled(part, values)) for part in shape]
    return [filled for part, filled in items if len(filled) == len(part)]
