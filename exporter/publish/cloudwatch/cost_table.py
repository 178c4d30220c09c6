"""The estimate as a table for people, and as JSON."""

from typing import Any

from rich.table import Table

from collector.signals import Level
from exporter.publish.cloudwatch.cost import PRICES, Estimate
from exporter.publish.cloudwatch.settings import Settings
from exporter.table import plain
from exporter.units import show_duration


def make_table(found: Estimate) -> Table:
    """Metrics of each signal by level, and what they cost in a month."""
    levels = sorted({level for level, _ in found.metrics}, key=list(Level).index)
    table = Table(box=None, pad_edge=False)
    table.add_column("signal")
    for name in (*levels, "$ a month"):
        table.add_column(name, justify="right")
    for signal in sorted({signal for _, signal in found.metrics}):
        counts = [found.metrics.get((level, signal), 0) for level in levels]
        table.add_row(*map(plain, (signal, *(str(count or "-") for count in counts), f"{found.share(signal=signal):.2f}")))
    table.add_row(*map(plain, ("$ a month", *(f"{found.share(level):.2f}" for level in levels), f"{found.metrics_cost:.2f}")))
    return table


def summary(found: Estimate, settings: Settings) -> list[str]:
    """The bill, and what it rests on."""
    sent = (f"{found.log_bytes_a_month / 1e9:,.2f} GB of log a month: ${found.log_cost:,.2f}" if settings.emf else
            f"{found.requests_a_month:,.0f} requests a month, one period {show_duration(settings.period)}: "
            f"${found.requests_cost:,.2f}")  # fmt: skip
    lines = [
        f"{found.number:,} metrics: ${found.metrics_cost:,.2f}",
        sent,
        f"together ${found.all_cost:,.2f} a month, without free allowances, alarms, dashboards and reading back",
        f"list prices of {PRICES.region} as of {PRICES.as_of}; check them at {PRICES.source}",
    ]
    for reason, count in sorted(found.refused.items()):
        lines.append(f"left out: {count:,} metrics ({reason})")
    return lines


def as_data(found: Estimate) -> dict[str, Any]:
    """JSON-ready."""
    return {
        "metrics": found.number,
        "requests_per_month": found.requests_a_month,
        "log_bytes_per_month": found.log_bytes_a_month,
        "dollars_per_month": {"metrics": found.metrics_cost, "requests": found.requests_cost, "log": found.log_cost,
                              "all": found.all_cost},
        "levels": {level: {"metrics": sum(count for key, count in found.metrics.items() if key[0] is level),
                           "dollars_per_month": found.share(level)} for level in {level for level, _ in found.metrics}},
        "signals": [{"level": level, "signal": signal, "metrics": count, "dollars_per_month": found.share(level, signal)}
                    for (level, signal), count in sorted(found.metrics.items())],
        "left_out": dict(found.refused),
        "prices": {"as_of": PRICES.as_of, "region": PRICES.region, "source": PRICES.source},
    }  # fmt: skip
