"""What users need to test their own agents: no network, no waiting, no chance."""

from sayso.testing.clock import FakeClock
from sayso.testing.fuse import Blown, Fuse, fused, kill_me
from sayso.testing.human import FakeHuman
from sayso.testing.scripted import ScriptedModel, call, say

__all__ = [
    "Blown",
    "FakeClock",
    "FakeHuman",
    "Fuse",
    "ScriptedModel",
    "call",
    "fused",
    "kill_me",
    "say",
]
