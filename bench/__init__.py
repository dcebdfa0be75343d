"""Repeatable measurements of Reprise beside tools packaged in Debian; see README.md in this folder."""
