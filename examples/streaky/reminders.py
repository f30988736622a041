"""Sends a reminder over a Discord webhook or a Telegram bot.

A worker that dies after the call and before the ack sends the reminder again, with the same
idempotency key. Discord and Telegram ignore that key, so in this rare case a reminder can arrive
twice. Rows in the database cannot.
"""

from __future__ import annotations

from aiohttp import ClientSession

from examples.streaky import http_calls, settings
from examples.streaky.users import User


async def send_reminder(http: ClientSession, user: User, *, text: str, key: str) -> None:
    """Send the text over the user's channel."""
    headers = {"Idempotency-Key": key}
    if user.channel == "discord":
        # The address is the webhook's "id/token". With wait=true Discord confirms the delivery.
        url = f"{settings.DISCORD}/api/webhooks/{user.address}?wait=true"
        await http_calls.post(http, url, body={"content": text}, headers=headers)
        return
    # The address is "bot token/chat id".
    bot, _, chat = user.address.rpartition("/")
    url = f"{settings.TELEGRAM}/bot{bot}/sendMessage"
    await http_calls.post(http, url, body={"chat_id": chat, "text": text}, headers=headers)
