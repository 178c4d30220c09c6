"""Grafana boards: what they show as data, drawn with grafanalib, mended for the Grafana of today."""
