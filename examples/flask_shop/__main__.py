"""Serves the shop, with a worker as another process."""

import subprocess
import sys

from examples.flask_shop.shop import engine, web

engine()
worker = subprocess.Popen([sys.executable, "-m", "tickwork", "run", "examples.flask_shop.shop:app"])
try:
    web.run(port=8000)
finally:
    worker.terminate()
    worker.wait()
