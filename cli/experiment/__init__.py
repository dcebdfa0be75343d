"""Experiments: the TOML file as one value, and its rules."""
