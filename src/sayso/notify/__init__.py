"""Telling people: channels that notices go out by. None of them can decide anything."""
