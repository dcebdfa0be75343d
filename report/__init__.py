"""What a run's files say: summary, plots, HTML report, comparison of answers.

This package knows files only (docs/formats.md): it starts no server and talks to no other part of Reprise,
but for `reprise-mutator answers`, which turns a trace into an answers file.
"""
