"""Settings of Django: its tables are in the database of Tickwork."""

import os
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

_given = conninfo_to_dict(os.environ["TICKWORK_DATABASE"])
_names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
DATABASES = {"default": {name: str(_given.get(key) or "") for key, name in _names.items()}}
DATABASES["default"]["ENGINE"] = "django.db.backends.postgresql"
SECRET_KEY = os.environ.get("SHOP_SECRET", "for this example only")
DEBUG, ALLOWED_HOSTS = True, ["*"]
_contrib = [f"django.contrib.{name}" for name in ("auth", "contenttypes", "sessions")]
INSTALLED_APPS = [*_contrib, "examples.django_shop"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
_engine = "django.template.backends.django.DjangoTemplates"
TEMPLATES = [{"BACKEND": _engine, "DIRS": [Path(__file__).parent]}]
ROOT_URLCONF = "examples.django_shop.urls"
LOGIN_URL, LOGIN_REDIRECT_URL = "/login", "/console"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TICKWORK_SERVER = os.environ.get("TICKWORK_SERVER", "http://127.0.0.1:8080")
TICKWORK_API_KEY = os.environ.get("TICKWORK_API_KEY", "")
