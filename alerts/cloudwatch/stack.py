"""A template as the text of a file, in few bytes: CreateStack takes no more than so many."""

from typing import Any

import yaml

HEADER = "# Generated from the rules by `llm-fleet-exporter render cloudwatch-alarms`; change the rules in alerts/.\n"


def as_text(template: dict[str, Any]) -> str:
    """YAML. Same template, same bytes."""
    return HEADER + yaml.dump(
        template, Dumper=_Dumper, sort_keys=False, width=1 << 20, allow_unicode=True, default_flow_style=False
    )


class _Dumper(yaml.SafeDumper):
    """Functions of CloudFormation in their short form and small things on one line: a stack takes few bytes."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _function(dumper: yaml.SafeDumper, value: dict[str, Any]) -> yaml.Node:
    if set(value) <= {"Ref", "Fn::Sub"} and len(value) == 1:
        ((name, text),) = value.items()
        return dumper.represent_scalar(f"!{name.removeprefix('Fn::')}", text)
    small = all(
        isinstance(item, (str, int, float)) or (isinstance(item, dict) and set(item) == {"Ref"}) for item in value.values()
    )
    return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=small and len(value) <= 2)


_Dumper.add_representer(dict, _function)
