"""Measures Sayso against floors taken in the same run: `python -m bench`."""
