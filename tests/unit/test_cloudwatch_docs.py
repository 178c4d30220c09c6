"""docs/cloudwatch.md and its policies: what we call is allowed and no more, every reason is told, links lead somewhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from collector.naming import CLOUDWATCH_NAMESPACE
from exporter.config import parse_config
from exporter.publish.cloudwatch.limits import Reason

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cloudwatch.md").read_text(encoding="utf-8")
SINK = ROOT / "exporter" / "publish" / "cloudwatch"


def policy(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "cloudwatch" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def actions(name: str) -> set[str]:
    statements = policy(name)["Statement"]
    return {action for one in statements for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])}


def test_the_policy_allows_what_the_sink_calls_and_no_more() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in SINK.glob("*.py"))
    called = re.findall(r"client\.([a-z]+_[a-z_]+)\(", source)
    assert actions("iam-publish") == {f"cloudwatch:{name.title().replace('_', '')}" for name in called}


def test_only_our_own_namespace_can_be_written() -> None:
    put = next(one for one in policy("iam-publish")["Statement"] if one["Action"] == "cloudwatch:PutMetricData")
    assert put["Condition"] == {"StringEquals": {"cloudwatch:namespace": CLOUDWATCH_NAMESPACE}}


@pytest.mark.parametrize("name", ["iam-publish", "iam-boards-alarms", "trust-irsa", "trust-pod-identity"])
def test_policies_are_whole_and_name_no_account(name: str) -> None:
    whole = policy(name)
    assert whole["Version"] == "2012-10-17"
    assert all(one["Effect"] == "Allow" for one in whole["Statement"])
    assert not re.search(r"\d{12}", json.dumps(whole))
    assert f"cloudwatch/{name}.json" in TEXT
    if name.startswith("iam"):
        assert not any("*" in action for action in actions(name))


def test_every_reason_is_told() -> None:
    assert {str(reason) for reason in Reason} <= set(re.findall(r"`([a-z_]+)`", TEXT))
    source = (SINK / "send.py").read_text(encoding="utf-8")
    assert set(re.findall(r'Unsent\("(\w+)"', source)) <= set(re.findall(r"`([a-z_]+)`", TEXT))


def test_links_lead_somewhere_and_examples_are_good() -> None:
    for link in re.findall(r"\]\(([a-z][^):]*)\)", TEXT):
        assert (ROOT / "docs" / link).is_file(), link
    for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL):
        if "cluster:" in block:
            parse_config(re.sub("^   ", "", block, flags=re.MULTILINE))
