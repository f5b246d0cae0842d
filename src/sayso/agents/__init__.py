"""Agents, their tools and their models: what users write, made into what the engine knows."""
