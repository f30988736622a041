"""Writes the OpenAPI description to a file: the types of the console are made from it."""

import sys
from pathlib import Path

import msgspec

from tickwork import clock
from tickwork.api import create_api
from tickwork.core import when

api = create_api(now=clock.now, limits=when.Limits())
target = Path(sys.argv[1])
target.parent.mkdir(exist_ok=True)
target.write_bytes(msgspec.json.encode(api.openapi_schema.to_schema()))
