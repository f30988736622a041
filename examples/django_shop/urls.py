"""The addresses of the shop."""

from django.contrib.auth.views import LoginView
from django.urls import path

from examples.django_shop.views import console, orders

urlpatterns = [
    path("orders", orders),
    path("login", LoginView.as_view(template_name="login.html")),
    path("console", console),
    path("console/<path:page>", console),
    path("v1/<path:call>", console),
]
