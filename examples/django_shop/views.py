"""The views: orders, and the console of Tickwork behind the login of Django."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import httpx
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from examples.django_shop.models import Order, Stock
from examples.django_shop.queues import app

SESSION = "tickwork_session"
FORWARDED = ("Content-Type", "X-CSRF-Token", "If-Match", "If-None-Match", "Idempotency-Key")
RETURNED = ("Content-Type", "Content-Security-Policy", "Cache-Control", "ETag")


@csrf_exempt
def orders(request: HttpRequest) -> HttpResponse:
    """Orders an item, and sends the email if, and only if, the order commits."""
    if request.method != "POST":
        return JsonResponse([*Order.objects.order_by("id").values()], safe=False)
    item = json.loads(request.body)["item"]
    with transaction.atomic():
        made = Order.objects.create(item=item)
        app.sync.queue("emails").send({"order": made.id}, connection=connection)
        stock = Stock.objects.select_for_update().filter(item=item, left__gt=0).first()
        if stock is None:
            transaction.set_rollback(True)  # The order and the email.
            return JsonResponse({"detail": f"{item} is sold out"}, status=409)
        stock.left -= 1
        stock.save()
    return JsonResponse({"id": made.id}, status=201)


@csrf_exempt  # The console has a token of its own, which the server of Tickwork checks.
@login_required
def console(request: HttpRequest, **_: str) -> HttpResponseBase:
    """The console, for who is logged in to Django. The browser gets no key of Tickwork: its session
    there is kept in the session here."""
    server = httpx.Client(base_url=settings.TICKWORK_SERVER, timeout=60)
    if SESSION not in request.session:
        signed_in = server.post("/v1/session", json={"key": settings.TICKWORK_API_KEY})
        request.session[SESSION] = signed_in.raise_for_status().cookies[SESSION]
    headers = {name: request.headers[name] for name in FORWARDED if name in request.headers}
    headers["Cookie"] = f"{SESSION}={request.session[SESSION]}"
    asked = server.build_request(
        str(request.method), request.get_full_path(), content=request.body, headers=headers
    )
    answer = server.send(asked, stream=True)
    if answer.status_code == 401:  # Its session there has ended: the next request begins another.
        del request.session[SESSION]
    kept = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
    return StreamingHttpResponse(_pieces(answer), status=answer.status_code, headers=kept)


def _pieces(answer: httpx.Response) -> Iterator[bytes]:
    """The body as it comes: the event stream of the console does not end."""
    with closing(answer):
        yield from answer.iter_bytes()
