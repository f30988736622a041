"""Where the truth lives: one contract, and one package per database behind it.

`contract` says what a store does, noun by noun; `sqlite` and `postgres` do it. They share
the contract's values and nothing else, and one conformance suite holds them to it.
"""
