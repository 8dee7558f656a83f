"""The one place where an error of the S3 client becomes a typed error.

The client says everything in one long text: the request, the server's whole answer
(which may quote parts of what was signed, a session token included) and a dump of
its own state. So only a status, an error code and the kind of a network failure are
picked out of it by pattern, and nothing else of it is ever shown or chained.
"""

from __future__ import annotations

import errno

from omnigraph_core.patterns import pattern
from omnigraph_core.records import dataclass
from omnigraph_core.storage.failures import (
    AccessDenied,
    NoSpaceLeft,
    NoSuchBucket,
    StorageFailure,
    Unreachable,
)

_STATUS = pattern(r"non-2xx status code: (\d{3})")
_CODE = pattern(r"<Code>(\w{1,64})</Code>")
_KIND = pattern(r"HttpError \{\s*kind: (\w+)")
_NO_CREDENTIALS = ("169.254.169.254", "169.254.170.", "latest/api/token", "latest/meta-data")

_BAD_CREDENTIALS = frozenset(
    {"SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
)
_WRONG_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraint"})
# 409 is how S3 says that a rival's conditional write is under way.
_PASSING_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What can be said about a failed request; `kind` is the client's word when there was no answer."""

    status: int | None
    code: str | None
    kind: str | None
    has_credentials: bool
    refused: bool = False

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed in a moment; then its outcome is unknown, too."""
        if not self.has_credentials:
            return False
        if self.status is None:
            return True
        return self.status in _PASSING_STATUS

    @property
    def no_bucket(self) -> bool:
        return self.code == "NoSuchBucket"


def symptoms(error: BaseException) -> Symptoms:
    text = str(error)
    status, code, kind = _STATUS.search(text), _CODE.search(text), _KIND.search(text)
    return Symptoms(
        status=int(status[1]) if status else None,
        code=code[1] if code else None,
        kind=kind[1] if kind else None,
        has_credentials=not any(mark in text for mark in _NO_CREDENTIALS),
        refused="Connection refused" in text,
    )


def s3_failure(found: Symptoms, action: str, uri: str, server: str) -> StorageFailure:
    """The typed error for "cannot `action` `uri`"."""
    cannot = f"cannot {action} {uri}"
    answer = " ".join(str(part) for part in (found.status, found.code) if part is not None)
    if not found.has_credentials:
        return AccessDenied(
            f"{cannot}: no S3 credentials found",
            path=uri,
            errno_name=errno.errorcode[errno.EACCES],
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if found.no_bucket:
        bucket = uri.removeprefix("s3://").partition("/")[0]
        return NoSuchBucket(
            f"{cannot}: there is no bucket '{bucket}' at {server}",
            path=uri,
            errno_name=errno.errorcode[errno.ENOENT],
            hint="create the bucket, or check its name, AWS_REGION and AWS_ENDPOINT_URL_S3",
        )
    if found.code in _WRONG_REGION or found.status == 301:
        return StorageFailure(
            f"{cannot}: the bucket is in another region ({answer})",
            path=uri,
            errno_name=errno.errorcode[errno.EREMOTE],
            hint="set AWS_REGION to the region of the bucket",
        )
    if found.status in (401, 403) or found.code in _BAD_CREDENTIALS:
        return _denied(cannot, found, uri, server)
    if found.status == 507 or found.code in ("QuotaExceeded", "XMinioStorageFull"):
        return NoSpaceLeft(
            f"{cannot}: {server} has no space left ({answer})",
            path=uri,
            errno_name=errno.errorcode[errno.ENOSPC],
            hint="free some space and run the command again",
        )
    if found.status == 501:
        return StorageFailure(
            f"{cannot}: {server} does not support what OmniGraph needs ({answer})",
            path=uri,
            errno_name=errno.errorcode[errno.ENOTSUP],
            hint="the server must support conditional writes (If-None-Match and If-Match)",
        )
    if found.status is not None:
        failed = Unreachable if found.may_pass else StorageFailure
        return failed(
            f"{cannot}: {server} answered {answer}", path=uri, errno_name=errno.errorcode[errno.EIO]
        )
    return _unreachable(cannot, found, uri, server)


def _denied(cannot: str, found: Symptoms, uri: str, server: str) -> AccessDenied:
    code = found.code or f"{found.status}"
    if found.code in _BAD_CREDENTIALS:
        reason, hint = (
            f"{server} does not accept the credentials",
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
        )
    elif found.code == "RequestTimeTooSkewed":
        reason, hint = "the clock of this machine is wrong", "set the clock and run the command again"
    else:
        reason, hint = (
            "permission denied",
            "the credentials must allow s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject there",
        )
    return AccessDenied(
        f"{cannot}: {reason} ({code})", path=uri, errno_name=errno.errorcode[errno.EACCES], hint=hint
    )


def _unreachable(cannot: str, found: Symptoms, uri: str, server: str) -> Unreachable:
    reason, number = f"the connection to {server} failed", errno.EIO
    if found.kind == "Timeout":
        reason, number = f"{server} did not answer in time", errno.ETIMEDOUT
    elif found.refused:
        reason, number = f"{server} refused the connection", errno.ECONNREFUSED
    elif found.kind == "Connect":
        reason, number = f"cannot connect to {server}", errno.EHOSTUNREACH
    return Unreachable(
        f"{cannot}: {reason}",
        path=uri,
        errno_name=errno.errorcode[number],
        hint="check the network, AWS_ENDPOINT_URL_S3 and AWS_REGION",
    )
