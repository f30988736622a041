"""The app, its two queues, and the jobs that schedules send to them.

A job's `type` says which struct it is. Bodies that fit none of the types of their queue are refused
when they are sent or scheduled.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from msgspec import Struct

from examples.hr_notifications.users import User
from tickwork import Queue, Tickwork


class Job(Struct, frozen=True, tag_field="type", rename="camel", kw_only=True):
    """What all jobs have."""

    schedule_id: str
    user_id: str
    user_email: str


class NotificationJob(Job, frozen=True, tag="notification"):
    """Send a notification."""

    notification_type: str
    title: str
    message: str


class ReportGenerationJob(Job, frozen=True, tag="report_generation"):
    """Generate a report and send it."""

    report_type: str


class DataSyncJob(Job, frozen=True, tag="data_sync"):
    """Look for new data."""

    source: str
    entity_type: str


class OnboardingReminderJob(Job, frozen=True, tag="onboarding_reminder"):
    """Remind an employee of the next step."""

    employee_id: str


class PasswordReminderJob(Job, frozen=True, tag="password_reminder"):
    """Remind a user to change the password."""


NotificationQueueJob: TypeAlias = (
    NotificationJob | ReportGenerationJob | DataSyncJob | OnboardingReminderJob
)
AnyJob: TypeAlias = NotificationQueueJob | PasswordReminderJob

app = Tickwork(
    os.environ.get("TICKWORK_DATABASE", "sqlite:///hr_notifications.db"), name="hr-notifications"
)
notification_queue: Queue[NotificationQueueJob] = app.queue(
    "notification-queue", payload=NotificationQueueJob
)
auth_queue = app.queue("auth-queue", payload=PasswordReminderJob)

JobType: TypeAlias = Literal[
    "profile_reminder",
    "stock_price",
    "timesheet_reminder",
    "tax_deadline",
    "weekly_report",
    "payslip_sync",
    "onboarding",
    "password_change",
]
"""What a user may schedule."""


def queue_of(job_type: JobType) -> str:
    """Return the queue whose consumer does such a job."""
    return "auth-queue" if job_type == "password_change" else "notification-queue"


def job_of(job_type: JobType, schedule_id: str, user: User) -> AnyJob:
    """Return the job that a schedule sends each time."""
    ids = {"schedule_id": schedule_id, "user_id": user.id, "user_email": user.email}
    match job_type:
        case "password_change":
            return PasswordReminderJob(**ids)
        case "weekly_report":
            return ReportGenerationJob(**ids, report_type="week")
        case "payslip_sync":
            return DataSyncJob(**ids, source="payroll", entity_type="payslip")
        case "onboarding":
            return OnboardingReminderJob(**ids, employee_id=user.id)
        case _:
            return NotificationJob(
                **ids,
                notification_type=job_type,
                title=f"{job_type} notification",
                message=f"Scheduled {job_type} for {user.email}",
            )
