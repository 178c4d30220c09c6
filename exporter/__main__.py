"""`python -m exporter` is the command llm-fleet-exporter."""

from exporter.cli import main

main()
