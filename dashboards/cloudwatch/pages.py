"""Every board that reads CloudWatch."""

from alerts.slo import Settings
from dashboards.cloudwatch.cluster import cluster
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.pool import pool
from dashboards.cloudwatch.sagemaker import sagemaker


def pages(settings: Settings) -> tuple[Page, ...]:
    """The boards with the limits and objectives that the alarms have by the same settings."""
    return tuple(page(settings) for page in (cluster, pool, sagemaker))
