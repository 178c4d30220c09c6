"""Requests to CloudWatch's OTLP endpoint before a server that computes AWS Signature Version 4 itself, from its specification."""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from collector.clock import SystemClock
from exporter.config import parse_config
from exporter.publish.otlp.send import Courier, resource_of
from exporter.publish.outbox import Unsent
from tests.net.otlp_back_ends import BackEnd, http_back_end
from tests.net.test_otlp_faults import Ready, failure, snapshot

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session-token"
REGION = "eu-west-1"
FORM = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), "
                  r"Signature=([0-9a-f]{64})")  # fmt: skip


def signature(secret: str, headers: Mapping[str, str], body: bytes) -> str:
    """What the signature has to be: the canonical request, the string to sign, the derived key."""
    form = FORM.fullmatch(headers["authorization"])
    assert form is not None, headers["authorization"]
    _, day, region, service, signed, _ = form.groups()
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed.split(";"))
    digest = hashlib.sha256(body).hexdigest()
    canonical = "\n".join(["POST", urlsplit(headers[":path"]).path, "", lines, signed, digest])
    scope = f"{day}/{region}/{service}/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", TOKEN),
                        ("AWS_EC2_METADATA_DISABLED", "true"), ("AWS_CONFIG_FILE", "/nonexistent"),
                        ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")):  # fmt: skip
        monkeypatch.setenv(name, value)


def courier(back_end: BackEnd, more: str = "") -> Courier:
    text = f"cluster: c\notlp: {{aws_region: {REGION}, endpoint: '{back_end.url}/v1/metrics'{more}}}"
    read = parse_config(text).otlp
    assert read is not None
    return Courier(read, resource_of("c"), clock=SystemClock(), max_pods=500)


@pytest.fixture
def back_end() -> Iterator[BackEnd]:
    with http_back_end() as one:
        yield one


@pytest.mark.parametrize("more", ["", ", compression: none"])
def test_every_request_is_signed_for_the_service_and_region(back_end: BackEnd, more: str) -> None:
    """The second batch holds what ended too, which is added to a packed body before it is signed."""
    one = courier(back_end, more)
    for names in (("stays", "goes"), ("stays",)):
        one.send(Ready(snapshot(1, *names)))
    one.close()
    assert len(back_end.taken) >= 3
    for headers, body in zip(back_end.headers, back_end.bodies, strict=True):
        form = FORM.fullmatch(headers["authorization"])
        assert form is not None
        assert form.groups()[2:4] == (REGION, "monitoring")
        assert form[1] == KEY
        assert {"host", "content-type", "x-amz-date", "x-amz-security-token"} <= set(form[5].split(";"))
        assert ("content-encoding" in form[5].split(";")) == (not more)
        assert headers["x-amz-security-token"] == TOKEN
        assert form[6] == signature(SECRET, headers, body)
        then = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        assert abs((datetime.now(UTC) - then).total_seconds()) < 300


@pytest.mark.parametrize("change", ["secret", "body", "header"])
def test_the_check_can_fail(back_end: BackEnd, change: str) -> None:
    courier(back_end).send(Ready(snapshot()))
    headers, body = dict(back_end.headers[0]), back_end.bodies[0]
    if change == "header":
        headers["content-type"] = "text/plain"
    form = FORM.fullmatch(headers["authorization"])
    assert form is not None
    assert form[6] != signature("other" if change == "secret" else SECRET, headers, body + b"x" if change == "body" else body)


def test_requests_are_small_and_packed(back_end: BackEnd) -> None:
    courier(back_end).send(Ready(snapshot(1, *(f"p{number}" for number in range(60)))))
    assert len(back_end.taken) >= 4
    for headers, body, request in zip(back_end.headers, back_end.bodies, back_end.taken, strict=True):
        assert headers["content-encoding"] == "gzip"
        assert len(body) < request.ByteSize() < 1_000_000
        points = sum(len(getattr(metric, metric.WhichOneof("data")).data_points)
                     for scope in request.resource_metrics[0].scope_metrics for metric in scope.metrics)  # fmt: skip
        assert points <= 200


def test_without_credentials_nothing_is_sent_and_the_reason_is_told(back_end: BackEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    told: Unsent = failure(courier(back_end), Ready(snapshot()))
    assert told.reason == "unauthorized"
    assert "no AWS credentials" in str(told)
    assert back_end.attempts == 0
