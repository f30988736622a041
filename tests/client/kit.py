"""Clients of an API in this process, and a transport that answers what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import httpx

from tickwork.client.exchange import Answer, Lost, Request

Reply = Answer | Lost | Callable[[Request], Answer]


class InProcess:
    """Sends requests to an API in this event loop."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def send(self, request: Request) -> Answer | Lost:
        path = request.url.removeprefix("http://t")
        found = await self._http.request(
            request.method, path, headers=request.headers, content=request.body
        )
        return Answer(found.status_code, dict(found.headers), found.content)

    async def pieces(self, request: Request) -> AsyncIterator[Answer | Lost | bytes]:
        answer = await self.send(request)
        assert isinstance(answer, Answer)
        yield answer
        yield answer.body

    async def close(self) -> None:
        pass


class Scripted:
    """Answers with one reply after another, and keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[Request] = []
        self._replies = [*replies]

    def send(self, request: Request) -> Answer | Lost:
        self.requests.append(request)
        reply = self._replies.pop(0)
        return reply(request) if callable(reply) else reply

    def pieces(self, request: Request) -> Iterator[Answer | Lost | bytes]:
        yield self.send(request)

    def close(self) -> None:
        pass
