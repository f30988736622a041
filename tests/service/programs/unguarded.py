"""An app that runs whenever its module is imported."""

from __future__ import annotations

from typing import Any

from tickwork.facade.app import Tickwork

app = Tickwork()
app.queue("work")


@app.on("work", isolation="process")
def handle(_: Any) -> None:
    """Never gets there."""


app.run()
