"""The `reprise` command: experiments, plans, the executor of plans on this machine."""

VERSION = "0.1.0"
