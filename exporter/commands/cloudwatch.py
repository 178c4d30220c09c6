"""Commands about CloudWatch."""

import click


@click.group()
def cloudwatch() -> None:
    """What CloudWatch gets, and what it costs."""
