"""The app of Tickwork, and its handlers."""

from typing import Any

from tickwork import Message, Tickwork

app = Tickwork()
app.queue("emails")


@app.on("emails")
async def email(message: Message[dict[str, Any]]) -> None:
    """Writes to the customer; the note that it did commits with the ack."""
    with message.transaction() as rows:
        rows.execute(
            "UPDATE django_shop_order SET emails = emails + 1 WHERE id = $1", message.body["order"]
        )
