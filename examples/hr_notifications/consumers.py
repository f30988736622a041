"""The consumers of the two queues. A stand-in receives what they send out."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from examples.hr_notifications.jobs import (
    DataSyncJob,
    NotificationJob,
    NotificationQueueJob,
    OnboardingReminderJob,
    PasswordReminderJob,
    ReportGenerationJob,
    app,
)
from tickwork import Message


class Sent(NamedTuple):
    """One email."""

    at: datetime
    to: str
    text: str


outbox: list[Sent] = []
down: set[str] = set()
"""Addresses that cannot be reached."""


@app.on("notification-queue")
async def notify(message: Message[NotificationQueueJob]) -> None:
    """Do a job by its type."""
    match message.body:
        case NotificationJob(user_email=to, message=text):
            send_email(to, text)
        case ReportGenerationJob(user_email=to, report_type=kind):
            send_email(to, f"Your report of the {kind}")
        case DataSyncJob(user_email=to, source=source, entity_type=kind):
            send_email(to, f"No new {kind} in {source}")
        case OnboardingReminderJob(user_email=to):
            send_email(to, "The next step of your onboarding waits")


@app.on("auth-queue")
async def remind_of_password(message: Message[PasswordReminderJob]) -> None:
    """Remind a user to change the password."""
    send_email(message.body.user_email, "Please change your password")


def send_email(to: str, text: str) -> None:
    """Send an email, or fail as a mail server does."""
    if to in down:
        raise ConnectionError(f"the server of {to} does not answer")
    outbox.append(Sent(app.now(), to, text))
    print(f"{app.now():%Y-%m-%d %H:%M} to {to}: {text}", flush=True)
