"""Carries out a plan on this machine."""
