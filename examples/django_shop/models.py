"""The tables of the shop."""

from django.db import models


class Stock(models.Model):
    """How many of an item are left."""

    item = models.CharField(max_length=100, primary_key=True)
    left = models.IntegerField()


class Order(models.Model):
    """What somebody ordered."""

    item = models.CharField(max_length=100)
    emails = models.IntegerField(default=0)
