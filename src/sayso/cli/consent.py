"""`sayso consent`, which goes the way of `sayso signin`."""

from sayso.cli.signin import consent

__all__ = ["consent"]
