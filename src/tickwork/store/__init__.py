"""Durable storage: one contract, and one package per database that implements it.

`contract` defines the operations of a store. `sqlite` and `postgres` implement them and do not
import each other. One conformance suite tests both.
"""
