"""Batches to PutMetricData through one long-lived client; every failure gets a reason, and word whether to try again.

The outbox tries again, so that order is kept and every attempt is counted; the client's own part is the pace: after
throttling its adaptive mode holds requests back. A request whose answer was lost (`lost_answer`, `unavailable`) may have been
taken: when it is sent again, its increases count twice, which nothing in the interface can prevent.
"""

import logging
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as NoConnection

from collector.clock import Clock
from exporter import __version__
from exporter.log import say
from exporter.publish.cloudwatch.batch import Batch, pack, unpack
from exporter.publish.cloudwatch.limits import Reason, timely
from exporter.publish.cloudwatch.settings import Settings
from exporter.publish.outbox import Receipt, Unsent

_log = logging.getLogger(__name__)

THROTTLES = frozenset({"Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "SlowDown",
                       "TooManyRequestsException", "RequestThrottledException", "LimitExceeded"})  # fmt: skip
STALE_CREDENTIALS = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "UnrecognizedClientException",
                               "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch",
                               "RequestTimeTooSkewed", "AuthFailure", "MissingAuthenticationToken"})  # fmt: skip
DENIALS = frozenset({"AccessDenied", "AccessDeniedException", "NotAuthorized", "OptInRequired", "UnauthorizedOperation"})
"""By their name, since the reference gives some of them the status of bad data, 400."""

MOST_REFUSALS = 64
"""Refused requests while the bad data of one batch are sought by halves; beyond it what is left counts as refused."""

_PUT = "PutMetricData"
_SAID_CHARACTERS = 300
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 15.0


def make_client(settings: Settings) -> Any:
    """A client of the default credential chain, with the SDK's own settings for endpoint, proxy and FIPS."""
    config = Config(
        retries={"mode": "adaptive", "total_max_attempts": 1}, connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS,
        max_pool_connections=1, user_agent_extra=f"llm-fleet-exporter/{__version__}",
    )  # fmt: skip
    return boto3.Session().client("cloudwatch", region_name=settings.region or None, endpoint_url=settings.endpoint_url or None,
                                  config=config)  # fmt: skip


def denied(error: ClientError) -> bool:
    """Whether the answer is that we may not."""
    code, status = _told(error)
    return code in DENIALS or status in (401, 403)


def _told(error: ClientError) -> tuple[str, int]:
    """Code and HTTP status of an answer."""
    answer = error.response
    return str(answer.get("Error", {}).get("Code", "")), int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


class Sender:
    """Sends batches; runs on the outbox's thread. `after` is called with the client after each batch that went well."""

    def __init__(
        self, settings: Settings, clock: Clock, *, make: Callable[[Settings], Any] = make_client,
        after: Callable[[Any], None] = lambda _client: None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._clock = clock
        self._make = make
        self._after = after
        self._client: Any = None
        self._told_refusal = False

    def open(self) -> None:
        """Make the client now, since reading the SDK's tables would be felt later; if that fails, it is tried again."""
        try:
            self._client = self._make(self._settings)
        except (BotoCoreError, ValueError) as error:  # the latter for an endpoint that is none
            say(_log, logging.ERROR, "no client for CloudWatch yet", error=str(error))

    def __call__(self, batch: Batch) -> Receipt:
        if batch.pieces and not timely(batch.start, self._clock.now().wall):
            batch.rejected[Reason.TIMESTAMP] += sum(len(unpack(piece)) for piece in batch.pieces)
            batch.pieces.clear()
        while batch.pieces:
            self._send_first(batch)
        self._after(self._client)
        return batch.receipt

    def _send_first(self, batch: Batch) -> None:
        data = unpack(batch.pieces[0])
        try:
            self._put(data)
        except _Refused as error:
            self._halve(batch, data, error)
        else:
            batch.sent += len(data)
            batch.pieces.pop(0)

    def _halve(self, batch: Batch, data: list[Any], error: "_Refused") -> None:
        """Instead of refused data their halves, down to the bad datum, which is left out."""
        batch.refusals += 1
        if len(data) > 1 and batch.refusals <= MOST_REFUSALS:
            middle = len(data) // 2
            batch.pieces[:1] = [pack(data[:middle]), pack(data[middle:])]
            return
        if not self._told_refusal:
            self._told_refusal = True
            say(
                _log,
                logging.WARNING,
                "CloudWatch refused data, said once",
                metric=data[0]["MetricName"],
                error=str(error)[:_SAID_CHARACTERS],
            )
        batch.rejected[Reason.REFUSED] += len(data)
        batch.pieces.pop(0)

    def _put(self, data: list[Any]) -> None:
        """One request. _Refused where the data are at fault, Unsent where they are not."""
        try:
            if self._client is None:
                self._client = self._make(self._settings)
            self._client.put_metric_data(Namespace=self._settings.namespace, MetricData=data)
        except ClientError as error:
            raise self._failure_of(error) from error
        except ParamValidationError as error:
            raise _Refused(str(error)) from error
        except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, TokenRetrievalError) as error:
            self._client = None
            raise Unsent("credentials", str(error)) from error
        except (ReadTimeoutError, ConnectionClosedError, ResponseStreamingError) as error:
            raise Unsent("lost_answer", str(error)) from error
        except (NoConnection, HTTPClientError) as error:
            raise Unsent("unreachable", str(error)) from error
        except (BotoCoreError, ValueError) as error:
            raise Unsent("configuration", str(error)) from error

    def _failure_of(self, error: ClientError) -> Exception:
        code, status = _told(error)
        if code in THROTTLES or status == 429:
            return Unsent("throttled", str(error))
        if code in STALE_CREDENTIALS or error.operation_name != _PUT:
            # Refused by whom the credentials are fetched from, which says nothing of the data; or they are old. A new client
            # reads files and environment anew.
            self._client = None
            return Unsent("credentials", str(error))
        if denied(error):
            return Unsent("denied", str(error))
        if status in (400, 413):
            return _Refused(str(error))
        return Unsent("unavailable", str(error))


class _Refused(Exception):
    """The service will not take these data, now or ever."""
