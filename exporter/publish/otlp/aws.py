"""Requests to CloudWatch's OTLP endpoint, signed with AWS Signature Version 4 by botocore."""

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from requests import PreparedRequest

from exporter.publish.outbox import Unsent

SERVICE = "monitoring"
_SIGNED = ("content-type", "content-encoding")
"""Headers that go into the signature beside the host and the date; others may change on the way."""


class Signer:
    """Signs as whom the environment says: variables, profile, web identity, container or instance."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._session = Session()

    def sign(self, request: PreparedRequest) -> None:
        """Add the headers of a signature over method, URL, body and main headers. Unsent without credentials."""
        try:
            credentials = self._session.get_credentials()
            frozen = None if credentials is None else credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise Unsent("unauthorized", f"AWS credentials: {error}") from error
        if frozen is None:
            raise Unsent("unauthorized", "no AWS credentials in the environment, a profile or this machine's role")
        kept = {name: request.headers[name] for name in _SIGNED if name in request.headers}
        signed = AWSRequest(method=request.method, url=request.url, data=request.body, headers=kept)
        SigV4Auth(frozen, SERVICE, self._region).add_auth(signed)
        request.headers.update(dict(signed.headers))
