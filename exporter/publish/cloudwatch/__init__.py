"""CloudWatch: windows of one period, percentiles that are right, within the service's limits and cost."""
