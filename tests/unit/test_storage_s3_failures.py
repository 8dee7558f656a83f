"""What a person is told about a failed S3 request, from the long texts of the client."""

from __future__ import annotations

import pytest

from omnigraph_core.storage.failures import (
    AccessDenied,
    NoSpaceLeft,
    NoSuchBucket,
    StorageFailure,
    Unreachable,
)
from omnigraph_core.storage.s3_failures import s3_failure, symptoms

TOKEN = "a-session-token"


def answered(status: int, code: str) -> str:
    """As obstore 0.12 says it; S3 quotes what was signed when a signature is wrong."""
    body = (
        f"<Error><Code>{code}</Code><CanonicalRequest>x-amz-security-token:{TOKEN}</CanonicalRequest></Error>"
    )
    return (
        "Generic S3 error: Error performing GET http://h/b/p in 7ms - "
        f"Server returned non-2xx status code: {status} Whatever: {body}\n\nDebug source:\nGeneric {{ … }}"
    )


def silent(kind: str, more: str = "") -> str:
    return (
        f"Generic S3 error: HTTP error: error sending request\n\nHttpError {{\n    kind: {kind},\n {more} }}"
    )


@pytest.mark.parametrize(
    ("text", "expected", "says", "hint"),
    [
        (answered(403, "SignatureDoesNotMatch"), AccessDenied, "the server does not accept", "AWS_SECRET"),
        (answered(400, "ExpiredToken"), AccessDenied, "does not accept the credentials", "AWS_SESSION_TOKEN"),
        (answered(403, "AccessDenied"), AccessDenied, "permission denied (AccessDenied)", "s3:ListBucket"),
        (answered(403, "RequestTimeTooSkewed"), AccessDenied, "clock", "clock"),
        (
            answered(404, "NoSuchBucket"),
            NoSuchBucket,
            "no bucket 'bucket' at the server",
            "create the bucket",
        ),
        (answered(301, "PermanentRedirect"), StorageFailure, "another region", "AWS_REGION"),
        (answered(400, "AuthorizationHeaderMalformed"), StorageFailure, "another region", "AWS_REGION"),
        (answered(501, "NotImplemented"), StorageFailure, "does not support", "conditional writes"),
        (answered(507, "Full"), NoSpaceLeft, "no space left", "free some space"),
        (answered(503, "SlowDown"), Unreachable, "answered 503 SlowDown", "None"),
        (answered(418, "Teapot"), StorageFailure, "answered 418 Teapot", "None"),
        (silent("Timeout"), Unreachable, "did not answer in time", "network"),
        (
            silent("Connect", "Connection refused"),
            Unreachable,
            "refused the connection",
            "AWS_ENDPOINT_URL_S3",
        ),
        (silent("Connect", "dns error"), Unreachable, "cannot connect to the server", "AWS_ENDPOINT_URL_S3"),
        (silent("Interrupted"), Unreachable, "the connection to the server failed", "network"),
        (
            "Error performing PUT http://169.254.169.254/latest/api/token: non-2xx status code: 403",
            AccessDenied,
            "no S3 credentials found",
            "AWS_ACCESS_KEY_ID",
        ),
    ],
)
def test_what_is_said(text: str, expected: type[StorageFailure], says: str, hint: str) -> None:
    failure = s3_failure(symptoms(Exception(text)), "open", "s3://bucket/g", "the server")
    assert type(failure) is expected
    assert failure.message.startswith("cannot open s3://bucket/g: ")
    assert says in failure.message
    assert hint in str(failure.hint)
    assert TOKEN not in f"{failure} {failure.hint} {failure.details()}"


@pytest.mark.parametrize(
    ("text", "may_pass"),
    [
        (answered(500, "InternalError"), True),
        (answered(503, "SlowDown"), True),
        (answered(429, "TooManyRequests"), True),
        (answered(409, "ConditionalRequestConflict"), True),
        (silent("Timeout"), True),
        (silent("Connect"), True),
        (answered(403, "AccessDenied"), False),
        (answered(404, "NoSuchBucket"), False),
        (answered(412, "PreconditionFailed"), False),
        ("http://169.254.169.254/latest/api/token timed out", False),
    ],
)
def test_what_is_tried_again(text: str, may_pass: bool) -> None:
    assert symptoms(Exception(text)).may_pass is may_pass
