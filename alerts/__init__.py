"""Objectives, recording and alerting rules, and the PromQL they share with the boards."""
