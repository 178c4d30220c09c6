"""Dashboards put into an account."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from exporter.aws.client import plain_failures


def put_boards(client: Any, bodies: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Put each, and say what CloudWatch has to complain of it; what it refuses raises AwsError."""
    for name, body in bodies.items():
        with plain_failures():
            answer = client.put_dashboard(DashboardName=name, DashboardBody=json.dumps(body, ensure_ascii=False))
        messages = answer.get("DashboardValidationMessages", ())
        yield name, [f"{one.get('DataPath', '')}: {one.get('Message', '')}" for one in messages]
