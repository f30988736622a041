"""Serves the shop, with a worker as another process: `python -m examples.django_shop`."""

import os
import subprocess
import sys
from contextlib import suppress

import django
from django.core.management import CommandError, call_command

from examples.django_shop.queues import app

os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django_shop.settings"
for name, value in (("USERNAME", "demo"), ("PASSWORD", "demo"), ("EMAIL", "demo@example.com")):
    os.environ.setdefault(f"DJANGO_SUPERUSER_{name}", value)
key = app.sync.keys.create("the console in Django", scopes=["read", "send", "manage", "admin"])
os.environ["TICKWORK_API_KEY"] = key.token
app.sync.close()
django.setup()
call_command("migrate", run_syncdb=True, verbosity=0)
with suppress(CommandError):  # The user may be there from the last start.
    call_command("createsuperuser", interactive=False)
worker = subprocess.Popen([sys.executable, "-m", "django", "worker"])
try:
    call_command("runserver", os.environ.get("SHOP_PORT", "8000"), use_reloader=False)
finally:
    worker.terminate()
    worker.wait()
