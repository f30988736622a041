"""`tickwork import`: from crontab, Celery and APScheduler; all or nothing, idempotent, undone."""

from __future__ import annotations

import asyncio
import json
import pickle
import shelve
import sqlite3
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import asyncpg
import pytest

from tests.cli.kit import Desk
from tests.stores.home import Home
from tickwork.cli.import_celery import celery_fires
from tickwork.core.imports import differences
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.model import Schedule, ScheduleSelection

CRONTAB = "CRON_TZ=Europe/Berlin\n0 9 * * 1-5 report\n*/10 * * * * pulse\n*/10 * * * * pulse\n"
START = datetime(2026, 3, 1, tzinfo=UTC)


def schedules(desk: Desk) -> list[Schedule]:
    return [*desk.store(lambda store: store.schedules.list(DEFAULT, ScheduleSelection(), 100))]


def test_a_crontab_is_imported_once_however_often_and_undone(desk: Desk) -> None:
    file = desk.folder / "jobs"
    file.write_text(CRONTAB)
    shown = desk.answer("import", "crontab", str(file), "--dry-run")
    assert "would import jobs to queue crontab: 3 new" in shown
    assert schedules(desk) == []
    first = desk.json("import", "crontab", str(file))
    assert (len(first["created"]), first["is_done"], first["differences"]) == (3, True, [])
    made = {schedule.id for schedule in schedules(desk)}
    again = desk.json("import", "crontab", str(file))
    assert (len(again["created"]), len(again["kept"]), len(again["deleted"])) == (0, 3, 0)
    assert {schedule.id for schedule in schedules(desk)} == made
    file.write_text(CRONTAB.replace("0 9", "0 10"))
    changed = desk.json("import", "crontab", str(file))
    assert (len(changed["created"]), len(changed["kept"]), len(changed["deleted"])) == (1, 2, 1)
    report = next(schedule for schedule in schedules(desk) if b"report" in schedule.definition.body)
    assert json.loads(report.definition.body) == {"command": "report"}
    assert (report.definition.queue, report.definition.type) == ("crontab", "cron.command")
    assert desk.answer("import", "undo", "jobs") == "deleted 3 schedules of jobs\n"
    assert schedules(desk) == []
    assert desk.run("import", "undo", "jobs").exit_code == 1


def test_a_refused_line_refuses_the_import_unless_it_is_skipped(desk: Desk) -> None:
    file = desk.folder / "jobs"
    file.write_text("@reboot start\n0 9 * * * report\n")
    result = desk.run("import", "crontab", str(file))
    assert (result.exit_code, schedules(desk)) == (1, [])
    assert "line 1: @reboot has no time" in result.stdout
    assert "nothing was imported: 1 refused" in result.stderr
    assert desk.run("import", "crontab", str(file), "--skip-refused").exit_code == 0
    assert len(schedules(desk)) == 1


def test_a_dry_run_refuses_what_the_import_refuses(desk: Desk) -> None:
    file = desk.folder / "jobs"
    file.write_text(f"* * * * * /usr/bin/report.sh {'x' * 130_000}\n")
    told = [desk.run("import", "crontab", str(file), *words) for words in (["--dry-run"], [])]
    assert [result.exit_code for result in told] == [2, 2]
    assert told[0].stderr == told[1].stderr
    assert (schedules(desk), desk.json("queues", "list")) == ([], [])
    file.write_text("* * * * * /usr/bin/report.sh\n")
    for option, says in (("--schedules-max", "0 schedules"), ("--queues-max", "0 queues and may")):
        assert desk.run("tenants", "limits", "default", option, "0", "--reset").exit_code == 0
        told = [desk.run("import", "crontab", str(file), *words) for words in (["--dry-run"], [])]
        assert [result.exit_code for result in told] == [1, 1]
        assert told[0].stderr == told[1].stderr
        assert says in told[0].stderr
    assert (schedules(desk), desk.json("queues", "list")) == ([], [])


def test_imported_schedules_are_named_by_what_they_run(desk: Desk) -> None:
    file = desk.folder / "jobs"
    file.write_text("0 9 * * * /usr/local/bin/back-up.sh --all\n")
    desk.json("import", "crontab", str(file))
    (schedule,) = schedules(desk)
    assert str(schedule.name).startswith("jobs/back-up.sh-")


def test_wrong_uses_of_import_are_refused(desk: Desk) -> None:
    for words, told in (
        (["crontab"], "FILE is missing"),
        (["crontab", "nowhere"], "there is no file nowhere"),
        (["celery-beat"], "SOURCE is missing"),
        (["apscheduler"], "SOURCE is missing"),
        (["undo"], "NAME is missing"),
    ):
        result = desk.run("import", *words)
        assert (result.exit_code, told in result.stderr) == (2, True)


@pytest.fixture
def module(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of another system, in the working directory."""
    monkeypatch.chdir(desk.folder)
    monkeypatch.syspath_prepend(str(desk.folder))
    yield desk.folder / "their_app.py"
    sys.modules.pop("their_app", None)


CELERY = """
from datetime import timedelta
from celery import Celery
from celery.schedules import crontab

app = Celery("theirs")
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {
    "report": {"task": "reports.send", "schedule": crontab(minute=30, hour=2), "args": (1,)},
    "payday": {"task": "pay", "schedule": crontab(0, 9, day_of_month="1,15", day_of_week="fri")},
    "often": {"task": "often", "schedule": timedelta(minutes=5), "kwargs": {"a": 1}},
    "seconds": {"task": "seconds", "schedule": 90.0},
}
"""


def test_periodic_tasks_of_a_celery_app_are_imported(desk: Desk, module: Path) -> None:
    module.write_text(CELERY)
    found = desk.json("import", "celery-beat", "their_app:app")
    assert (len(found["created"]), found["refused"]) == (4, [])
    assert found["differences"] == []
    bodies = {
        json.loads(schedule.definition.body)["task"]: schedule for schedule in schedules(desk)
    }
    report = bodies["reports.send"].definition
    assert json.loads(report.body)["args"] == [1]
    assert (report.rule.timezone, report.type) == ("Europe/Berlin", "celery.task")


def test_the_file_of_beat_and_the_tables_of_django_are_read(desk: Desk) -> None:
    from celery.beat import ScheduleEntry
    from celery.schedules import crontab

    with shelve.open(str(desk.folder / "beat")) as stored:  # noqa: S301
        entry = ScheduleEntry(name="a", task="t", schedule=crontab(minute=5), args=(), kwargs={})
        stored["entries"], stored["tz"] = {"a": entry}, "UTC"
    found = desk.json("import", "celery-beat", str(desk.folder / "beat"), "--name", "file")
    assert [schedule["timing"] for schedule in found["created"]] == ["5 * * * *"]
    path = desk.folder / "django.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE django_celery_beat_crontabschedule
            (id, minute, hour, day_of_month, month_of_year, day_of_week, timezone);
        CREATE TABLE django_celery_beat_intervalschedule (id, every, period);
        CREATE TABLE django_celery_beat_clockedschedule (id, clocked_time);
        CREATE TABLE django_celery_beat_periodictask (name, task, args, kwargs, enabled, one_off,
            expires, queue, crontab_id, interval_id, clocked_id, solar_id);
        INSERT INTO django_celery_beat_crontabschedule
            VALUES (1, '0', '9', '*', '*', 'mon-fri', 'Europe/Berlin');
        INSERT INTO django_celery_beat_intervalschedule VALUES (1, 2, 'hours');
        INSERT INTO django_celery_beat_periodictask VALUES
            ('daily', 'a', '[1]', '{}', 1, 0, NULL, NULL, 1, NULL, NULL, NULL),
            ('hours', 'b', '[]', '{"x": 1}', 1, 0, NULL, 'slow', NULL, 1, NULL, NULL),
            ('sunny', 'c', '[]', '{}', 1, 0, NULL, NULL, NULL, NULL, NULL, 7),
            ('off', 'd', '[]', '{}', 0, 0, NULL, NULL, 1, NULL, NULL, NULL);
        """
    )
    connection.close()
    words = ("import", "celery-beat", f"sqlite:///{path}", "--name", "django", "--skip-refused")
    found = desk.json(*words)
    assert [schedule["timing"] for schedule in found["created"]] == ["0 9 * * 1,2,3,4,5", "7200"]
    assert [refusal["label"] for refusal in found["refused"]] == ["sunny"]
    assert found["notes"] == ["off is disabled there and is left out"]


def test_tasks_of_celery_keep_their_times_when_clocks_change(module: Path) -> None:
    from tickwork.cli.import_celery import read_celery

    hourly = "app.conf.beat_schedule['hourly'] = {'task': 'h', 'schedule': crontab(minute=0)}\n"
    module.write_text(CELERY + hourly)
    for start, is_autumn in ((START, False), (datetime(2026, 10, 23, tzinfo=UTC), True)):
        read = read_celery("their_app:app", start)
        found = [difference for entry in read.entries if (difference := differences(entry, start))]
        # In autumn Celery leaves out the hour that comes twice.
        assert [difference.label for difference in found] == (["hourly"] if is_autumn else [])
        assert all("clocks of Europe/Berlin change" in difference.reason for difference in found)


def test_the_old_fires_are_those_of_celery_across_clock_changes() -> None:
    from celery.schedules import crontab

    fires = [*celery_fires(crontab(minute=30, hour=2), "Europe/Berlin", START, 60)]
    assert datetime(2026, 3, 29, 1, 30, tzinfo=UTC) in fires  # 03:30: later by the gap
    assert {at.date() for at in fires} == {(START + timedelta(days=n)).date() for n in range(60)}


APSCHEDULER = """
from apscheduler.schedulers.background import BackgroundScheduler

def job(*args): ...

scheduler = BackgroundScheduler(timezone="America/New_York")
scheduler.add_job(job, "cron", id="weekdays", day_of_week="mon-fri", hour=9, minute=30, args=[1])
scheduler.add_job(job, "cron", id="friday", day="2nd fri", hour=8)
scheduler.add_job(job, "cron", id="last", day="last", hour=23, minute="*/15")
scheduler.add_job(job, "cron", id="both", day="1-7", day_of_week="mon", hour=6)
scheduler.add_job(job, "interval", id="every", minutes=10, start_date="2026-01-01 00:00:00")
scheduler.add_job(job, "date", id="once", run_date="2999-01-01 00:00:00")
"""


INTERVALS = """
from datetime import timedelta
from apscheduler.schedulers.background import BackgroundScheduler

def sync(): ...

scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_job(sync, "interval", minutes=10)
scheduler.add_job(sync, "interval", minutes=20, id="nightly sync!")
scheduler.add_job(sync, "cron", hour=3)
"""


def test_an_unchanged_apscheduler_imported_again_changes_nothing(desk: Desk, module: Path) -> None:
    module.write_text(INTERVALS)
    first = desk.json("import", "apscheduler", "their_app:scheduler")
    names = {schedule["name"] for schedule in first["created"]}
    assert len(names) == 3
    assert {name.rpartition("-")[0] for name in names} == {
        "apscheduler/sync",
        "apscheduler/nightly-sync",
    }
    made = {schedule.id for schedule in schedules(desk)}
    sys.modules.pop("their_app", None)
    again = desk.json("import", "apscheduler", "their_app:scheduler")
    assert (len(again["created"]), len(again["kept"]), len(again["deleted"])) == (0, 3, 0)
    assert {schedule.id for schedule in schedules(desk)} == made


@pytest.mark.parametrize("system", ["celery-beat", "apscheduler"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "import celery.nothing_here\n",
            "ModuleNotFoundError: No module named 'celery.nothing_here'",
        ),
        ("int('x')\n", "ValueError: invalid literal for int() with base 10: 'x'"),
    ],
)
def test_an_error_in_the_imported_module_is_shown_with_its_place(
    desk: Desk, module: Path, system: str, text: str, told: str
) -> None:
    module.write_text(f"\n{text}")
    result = desk.run("import", system, "their_app:app")
    assert result.exit_code == 2
    assert f"importing their_app failed: {told}" in result.stderr
    assert "their_app.py:2)" in result.stderr
    assert "pip install" not in result.stderr


def test_jobs_of_apscheduler_are_imported(desk: Desk, module: Path) -> None:
    module.write_text(APSCHEDULER)
    found = desk.json("import", "apscheduler", "their_app:scheduler")
    assert (len(found["created"]), found["refused"], found["differences"]) == (6, [], [])
    timings = {
        schedule["entry"].partition(":")[0]: schedule["timing"] for schedule in found["created"]
    }
    assert timings["friday"] == "0 8 * * 5#2"
    assert timings["last"] == "*/15 23 L * *"
    assert timings["both"].startswith("FREQ=DAILY")
    assert timings["every"] == "600"


def job_states(module: Path) -> list[tuple[str, bytes]]:
    """The rows that a job store of APScheduler keeps; then the functions are gone."""
    module.write_text(APSCHEDULER)
    their_app = import_module("their_app")

    jobs = [job for job in their_app.scheduler.get_jobs() if job.id in ("weekdays", "friday")]
    rows = []
    for job in jobs:
        paused = {"next_run_time": None if job.id == "friday" else START}
        job._modify(misfire_grace_time=30, coalesce=True, max_instances=1, **paused)
        rows.append((job.id, pickle.dumps(job.__getstate__())))
    module.unlink()
    sys.modules.pop("their_app", None)
    return rows


def check_jobs(desk: Desk, url: str) -> None:
    found = desk.json("import", "apscheduler", url)
    assert found["notes"] == ["friday is paused there and is left out"]
    (schedule,) = schedules(desk)
    assert schedule.definition.rule.missed.grace_seconds == 30
    assert json.loads(schedule.definition.body)["function"] == "their_app:job"


def test_jobs_are_read_from_a_table_without_importing_their_functions(
    desk: Desk, module: Path
) -> None:
    connection = sqlite3.connect(desk.folder / "jobs.db")
    connection.execute("CREATE TABLE apscheduler_jobs (id, job_state)")
    connection.executemany("INSERT INTO apscheduler_jobs VALUES (?, ?)", job_states(module))
    connection.commit()
    connection.close()
    check_jobs(desk, f"sqlite:///{desk.folder}/jobs.db")


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_jobs_are_read_from_a_table_of_postgresql(desk: Desk, module: Path, home: Home) -> None:
    async def fill() -> None:
        connection = await asyncpg.connect(home.url)
        await connection.execute("CREATE TABLE apscheduler_jobs (id text, job_state bytea)")
        statement = "INSERT INTO apscheduler_jobs VALUES ($1, $2)"
        await connection.executemany(statement, job_states(module))
        await connection.close()

    asyncio.run(fill())
    check_jobs(desk, home.url.replace("postgresql://", "postgresql+psycopg2://"))


def test_the_fires_of_apscheduler_are_compared(module: Path) -> None:
    from tickwork.cli.import_apscheduler import read_apscheduler

    module.write_text(APSCHEDULER)
    for start in (START, datetime(2026, 10, 20, tzinfo=UTC)):
        read = read_apscheduler("their_app:scheduler", start)
        assert [differences(entry, start) for entry in read.entries] == [None] * 6
