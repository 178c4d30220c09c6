"""The way out: the process, its configuration, its server and what it publishes."""

__version__ = "0.1.0"
