"""Push to any OTLP back end: a snapshot becomes the SDK's MetricsData, which the SDK's own exporters send."""
