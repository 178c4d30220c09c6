"""The alerts as CloudWatch alarms: metric math for its classic metrics, PromQL for what arrives over OTLP."""
