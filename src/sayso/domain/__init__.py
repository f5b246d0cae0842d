"""The pure part: no clock, no I/O, no async."""
