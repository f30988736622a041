"""Serves the shop, and prints a token."""

import jwt
import uvicorn

from examples.fastapi_shop.shop import SECRET, api

print("token of ann:", jwt.encode({"sub": "ann"}, SECRET), flush=True)
uvicorn.run(api, host="127.0.0.1", port=8000)
