"""Runs on several machines: their inventory, the agent on each, and what speaks to it over ssh."""
