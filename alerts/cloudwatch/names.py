"""From the name of an alarm back to what it speaks of."""

import re

from alerts.cloudwatch.model import Subject
from collector.signals import Level

_TEXT = r"(?:away|LLM(?P<level>Pool|Cluster)\w*?(?:BudgetBurn/[^/]+)?)/(?P<values>.+)"
_ALERT, _CONDITION = (re.compile(_TEXT + end, re.DOTALL) for end in ("", r"/if(?: [0-9]\w*)?"))


def subject_of(name: str, prefix: str, *, condition: bool) -> Subject | None:
    """The cluster or pool of an alarm that `alarms` made, a condition or a composite; None for any other name."""
    found = (_CONDITION if condition else _ALERT).fullmatch(name.removeprefix(f"{prefix}/"))
    if found is None:
        return None
    values = tuple(found["values"].rsplit("/", 2))
    of_pool = found["level"] == "Pool" or (found["level"] is None and len(values) == 3)
    try:
        return Subject(Level.POOL, values) if of_pool else Subject(Level.CLUSTER, (found["values"],))
    except ValueError:
        return None
