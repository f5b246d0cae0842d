"""Sabotage of our own guards, each with the test that must notice: `python -m mutants`."""
