"""A client of CloudWatch with the SDK's default credentials, and its failures as one line each."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

ATTEMPTS = 6
REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+")


class AwsError(Exception):
    """What went wrong, for a person; `wrong_usage` where the command line or the environment is to blame."""

    def __init__(self, message: str, *, wrong_usage: bool = False) -> None:
        super().__init__(message)
        self.wrong_usage = wrong_usage


def region_of(region: str, profile: str) -> str:
    """The region given, or that of the environment and profile. AwsError when there is none."""
    import boto3

    with plain_failures():
        found = region or boto3.Session(profile_name=profile or None).region_name
    found = found or os.environ.get("AWS_REGION")  # which this SDK, unlike others, does not read
    if not found:
        raise AwsError("no region: give --region, or set AWS_REGION or a profile that has one", wrong_usage=True)
    if not REGION.fullmatch(found):
        raise AwsError(f"{found!r} is no AWS region such as us-east-1", wrong_usage=True)
    return str(found)


def open_client(region: str, profile: str, endpoint_url: str) -> Any:
    """A CloudWatch client. Alarms may be written three times a second, so that it waits its turn when throttled."""
    import boto3
    from botocore.config import Config

    with plain_failures():
        session = boto3.Session(profile_name=profile or None, region_name=region_of(region, profile))
        patient = Config(retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS}, connect_timeout=10, read_timeout=30)
        return session.client("cloudwatch", endpoint_url=endpoint_url or None, config=patient)


@contextmanager
def plain_failures() -> Iterator[None]:
    """What the SDK raises as AwsError."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        ParamValidationError,
        PartialCredentialsError,
        ProfileNotFound,
        TokenRetrievalError,
    )

    try:
        yield
    except (NoCredentialsError, PartialCredentialsError, TokenRetrievalError) as error:
        hint = "set AWS_PROFILE, give --profile, or run where a role gives them"
        raise AwsError(f"no AWS credentials ({error}); {hint}", wrong_usage=True) from error
    except ProfileNotFound as error:
        raise AwsError(str(error), wrong_usage=True) from error
    except ClientError as error:
        raise AwsError(_refusal(error.response, error.operation_name)) from error
    except ParamValidationError as error:
        raise AwsError(f"the SDK refuses what we ask for: {error}") from error
    except BotoCoreError as error:
        raise AwsError(str(error)) from error
    except ValueError as error:  # an endpoint that is no URL
        raise AwsError(str(error), wrong_usage=True) from error


def _refusal(response: Mapping[str, Any], operation: str) -> str:
    told = response.get("Error", {})
    messages = [f"{one.get('DataPath', '')}: {one.get('Message', '')}" for one in response.get("dashboardValidationMessages", ())]
    return "\n".join([f"{operation}: {told.get('Code', '?')}: {told.get('Message', 'no reason given')}", *messages])
