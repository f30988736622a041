"""A reminder over Discord (a webhook) or Telegram (a bot).

A unit that is cut off after its reminder and before its ack reminds again when it comes back. The
key is the same then; whoever honours it sends one. Discord and Telegram themselves do not: there
a reminder can come twice, in that one moment. What is in the database cannot.
"""

from __future__ import annotations

from aiohttp import ClientSession

from examples.streaky import calling, settings
from examples.streaky.users import User


async def remind(http: ClientSession, user: User, *, text: str, key: str) -> None:
    """Sends the text where the user wants it."""
    headers = {"Idempotency-Key": key}
    if user.channel == "discord":
        # The address is the webhook's "id/token"; with wait=true the answer means: it is there.
        url = f"{settings.DISCORD}/api/webhooks/{user.address}?wait=true"
        await calling.post(http, url, body={"content": text}, headers=headers)
        return
    # The address is "bot token/chat".
    bot, _, chat = user.address.rpartition("/")
    url = f"{settings.TELEGRAM}/bot{bot}/sendMessage"
    await calling.post(http, url, body={"chat_id": chat, "text": text}, headers=headers)
