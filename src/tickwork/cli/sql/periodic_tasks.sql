-- The periodic tasks of django-celery-beat with their schedules.
SELECT t.name, t.task, t.args, t.kwargs, t.enabled, t.one_off, t.expires, t.queue,
    c.minute, c.hour, c.day_of_month, c.month_of_year, c.day_of_week, c.timezone,
    i.every, i.period, o.clocked_time, t.solar_id
FROM django_celery_beat_periodictask AS t
LEFT JOIN django_celery_beat_crontabschedule AS c ON c.id = t.crontab_id
LEFT JOIN django_celery_beat_intervalschedule AS i ON i.id = t.interval_id
LEFT JOIN django_celery_beat_clockedschedule AS o ON o.id = t.clocked_id
ORDER BY t.name
