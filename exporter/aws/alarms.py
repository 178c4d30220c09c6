"""Alarms put into an account and taken out again: only those that carry our tag are ever touched."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exporter.aws.client import AwsError, plain_failures

if TYPE_CHECKING:
    from alerts.cloudwatch.model import Alarm

MOST_AT_ONCE = 100
"""Alarms that one call deletes, by AWS's documentation; at most one of them may be a composite."""

_SEVERITY = "severity"
_METRIC, _COMPOSITE = "MetricAlarm", "CompositeAlarm"
_OF_KIND = {"PutMetricAlarm": _METRIC, "PutCompositeAlarm": _COMPOSITE}


@dataclass(frozen=True, slots=True)
class Standing:
    """An alarm that is in the account."""

    kind: str
    told: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.told["AlarmName"])

    @property
    def composite(self) -> bool:
        return self.kind == _COMPOSITE

    @property
    def arn(self) -> str:
        return str(self.told["AlarmArn"])


def standing(client: Any, prefix: str) -> dict[str, Standing]:
    """Alarms whose names begin with the prefix, ours and others, by name."""
    found: dict[str, Standing] = {}
    with plain_failures():
        pages = client.get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"{prefix}/", AlarmTypes=[_METRIC, _COMPOSITE])
        for page in pages:
            for kind in (_METRIC, _COMPOSITE):
                for told in page.get(f"{kind}s", ()):
                    found[told["AlarmName"]] = Standing(kind, told)
    return found


def put_alarms(client: Any, alarms: Sequence["Alarm"], prefix: str, mark: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Bring the account to what is described; yields name and what was done: created, changed, unchanged.

    AwsError for an alarm of the same name that does not carry the tag `mark`.
    """
    there = standing(client, prefix)
    for alarm in alarms:
        known = there.get(alarm.name)
        if known is None:
            _put(client, alarm)
            yield alarm.name, "created"
            continue
        tags = tags_of(client, known)
        if tags.get(mark[0]) != mark[1]:
            raise AwsError(
                f"{alarm.name} exists and is not tagged {mark[0]}={mark[1]}: choose another --prefix", wrong_usage=True
            )
        yield alarm.name, _change(client, alarm, known, tags)


def ours(client: Any, prefix: str, mark: tuple[str, str]) -> list[Standing]:
    """Alarms under the prefix that carry the tag `mark`."""
    return [one for one in standing(client, prefix).values() if tags_of(client, one).get(mark[0]) == mark[1]]


def telling(client: Any, prefix: str, mark: tuple[str, str], severities: Sequence[str]) -> list[str]:
    """ARNs of our alarms that tell somebody, by severity in the order given, then by name."""
    enabled = [one for one in standing(client, prefix).values() if one.told.get("ActionsEnabled")]
    tagged = [(one, tags_of(client, one)) for one in enabled]
    order = {severity: at for at, severity in enumerate(severities)}
    shown = sorted(
        (order.get(tags.get(_SEVERITY, ""), len(order)), one.name, one.arn)
        for one, tags in tagged
        if tags.get(mark[0]) == mark[1]
    )
    return [arn for _, _, arn in shown]


def delete_alarms(client: Any, doomed: Iterable[Standing]) -> Iterator[str]:
    """Delete alarms, those that speak of others first, since AWS keeps what a composite names; yields their names."""
    every = list(doomed)
    composites = {one.name: one for one in every if one.kind == _COMPOSITE}
    for name in _dependents_first(composites):
        with plain_failures():
            client.delete_alarms(AlarmNames=[name])
        yield name
    metrics = [one.name for one in every if one.kind == _METRIC]
    for at in range(0, len(metrics), MOST_AT_ONCE):
        names = metrics[at : at + MOST_AT_ONCE]
        with plain_failures():
            client.delete_alarms(AlarmNames=names)
        yield from names


def tags_of(client: Any, alarm: Standing) -> dict[str, str]:
    with plain_failures():
        answer = client.list_tags_for_resource(ResourceARN=alarm.arn)
    return {tag["Key"]: tag["Value"] for tag in answer.get("Tags", ())}


def _put(client: Any, alarm: "Alarm") -> None:
    operation = client.put_metric_alarm if _OF_KIND[alarm.kind] == _METRIC else client.put_composite_alarm
    with plain_failures():
        operation(**alarm.request)


def _change(client: Any, alarm: "Alarm", known: Standing, tags: Mapping[str, str]) -> str:
    wanted = {tag["Key"]: tag["Value"] for tag in alarm.request["Tags"]}
    retag = any(tags.get(key) != value for key, value in wanted.items())
    if retag:
        # Tags of a request that changes an alarm are ignored.
        with plain_failures():
            client.tag_resource(ResourceARN=known.arn, Tags=list(alarm.request["Tags"]))
    if _same(alarm.request, known.told):
        return "changed" if retag else "unchanged"
    _put(client, alarm)
    return "changed"


def _same(request: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether an alarm is as asked for. What AWS leaves out is what is empty."""
    return all(_plain(told.get(key)) == _plain(value) for key, value in request.items() if key != "Tags")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        # Metrics come back in an order of their own.
        return sorted((_plain(item) for item in value), key=repr) or None
    return None if value == "" else value


def _dependents_first(composites: Mapping[str, Standing]) -> Iterator[str]:
    left = dict(composites)
    while left:
        named = {
            name
            for one in left.values()
            for name in left
            if name != one.name and (f'"{name}"' in one.told.get("AlarmRule", "") or name == one.told.get("ActionsSuppressor"))
        }
        free = [name for name in left if name not in named] or list(left)
        for name in free:
            del left[name]
            yield name
