"""Every board that reads CloudWatch."""

from dashboards.cloudwatch.cluster import CLUSTER
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.pool import POOL
from dashboards.cloudwatch.sagemaker import SAGEMAKER

PAGES: tuple[Page, ...] = (CLUSTER, POOL, SAGEMAKER)
