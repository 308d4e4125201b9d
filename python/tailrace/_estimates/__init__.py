"""Estimates from samples of two tables: what `label_maturity` and `preflight` count."""
