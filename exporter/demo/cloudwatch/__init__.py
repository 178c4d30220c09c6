"""A strict stand-in for CloudWatch metrics: refuses what the service refuses, keeps the rest, answers percentiles."""
