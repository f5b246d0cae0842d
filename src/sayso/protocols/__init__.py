"""Other people's wires: what a run is on each of them. Nothing here awaits or keeps anything."""
