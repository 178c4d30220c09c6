"""Boards that read CloudWatch: one description, drawn for Grafana and as CloudWatch's own dashboard bodies."""
