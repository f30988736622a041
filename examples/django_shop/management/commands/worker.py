"""`python -m django worker`: the handlers, the schedules and the server of the console."""

from typing import Any

from django.core.management.base import BaseCommand

from examples.django_shop.queues import app


class Command(BaseCommand):
    """Runs the app until it is stopped."""

    help = "Run the handlers and schedules of the shop, and the server of its console."

    def handle(self, *_: Any, **__: Any) -> None:
        """Runs in this process, in which Django is set up."""
        app.run(roles="scheduler,worker,api", host="127.0.0.1")
