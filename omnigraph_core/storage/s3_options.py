"""From `S3Settings` to what the two S3 clients want: obstore for control objects, Lance for tables.

Both get every setting explicitly, under names that win over their own reading of the
environment, so they always talk to the same place. What cannot work is refused
here, before any request: both clients would answer late or not at all (a malformed
endpoint makes one of them abort).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from omnigraph_core.errors import UsageError
from omnigraph_core.settings import S3Settings
from omnigraph_core.storage.limits import CONNECT_DEFAULT_S, LEASE_TTL_MIN_S, REQUEST_DEFAULT_S
from omnigraph_core.storage.location import Location


class StorageOptions(dict[str, str]):
    """The `storage_options` for Lance: a real dict, because Lance wants one, that never shows its values."""

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self))})"


def check_settings(location: Location, settings: S3Settings) -> None:
    """Raise `UsageError` for settings that can never work."""
    if settings.endpoint is not None:
        _check_endpoint(settings.endpoint, allow_http=settings.allow_http)
    if (settings.access_key_id is None) != (settings.secret_access_key is None):
        given, missing = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
        if settings.access_key_id is None:
            given, missing = missing, given
        raise UsageError(f"{location}: {given} is set, but {missing} is not")
    if settings.lease_ttl_s < LEASE_TTL_MIN_S:
        raise UsageError(f"OMNIGRAPH_LEASE_TTL: a lease must last {LEASE_TTL_MIN_S} s or more")


def _check_endpoint(endpoint: str, *, allow_http: bool) -> None:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or any(character.isspace() for character in endpoint):
        raise UsageError(
            "AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL) is not the address of a server",
            hint="write https://host or https://host:port",
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL) cannot contain a user or a password",
            hint="use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if parts.scheme == "http" and not allow_http:
        raise UsageError(
            f"the S3 endpoint {endpoint} is not encrypted",
            hint="set AWS_ALLOW_HTTP=true to use it anyway, or use https://",
        )


def server_name(settings: S3Settings) -> str:
    """How messages call the server."""
    return settings.endpoint or f"AWS S3 in {settings.region}"


def split_root(location: Location) -> tuple[str, str]:
    """The bucket and the prefix of a graph root; the prefix may be empty."""
    bucket, _, prefix = location.root.partition("/")
    return bucket, prefix


def obstore_arguments(location: Location, settings: S3Settings, request_s: float) -> dict[str, Any]:
    """The keyword arguments of `obstore.store.S3Store`. It never retries: `S3ControlStore` does."""
    bucket, prefix = split_root(location)
    return {
        "bucket": bucket,
        "prefix": prefix or None,
        "config": _shared(bucket, settings),
        "client_options": {
            "allow_http": settings.allow_http,
            "timeout": f"{round(request_s * 1000)}ms",
            "connect_timeout": f"{round(min(request_s, CONNECT_DEFAULT_S) * 1000)}ms",
        },
        "retry_config": {"max_retries": 0},
    }


def lance_options(location: Location, settings: S3Settings) -> StorageOptions:
    """The `storage_options` for every Lance call on this location.

    Lance repeats what its client has given up (listings 6 times, reads 4 times), so
    these bound a silent server only to some two minutes; `Storage.probe` is what
    answers soon. Errors that come at once are over in 10 s.
    """
    bucket, _ = split_root(location)
    return StorageOptions(
        _shared(bucket, settings),
        allow_http="true" if settings.allow_http else "false",
        timeout=f"{REQUEST_DEFAULT_S:.0f}s",
        connect_timeout=f"{CONNECT_DEFAULT_S:.0f}s",
        client_max_retries="5",
        # A request that hangs is repeated once.
        client_retry_timeout="15",
        # Else everything above is done four times over.
        lance_aimd_max_retries="0",
    )


def _shared(bucket: str, settings: S3Settings) -> StorageOptions:
    """The options that both clients know under the same names."""
    options = StorageOptions(aws_region=settings.region)
    if settings.access_key_id and settings.secret_access_key:
        options["aws_access_key_id"] = settings.access_key_id
        options["aws_secret_access_key"] = settings.secret_access_key
        if settings.session_token:
            options["aws_session_token"] = settings.session_token
    virtual = settings.force_path_style is False
    options["aws_virtual_hosted_style_request"] = "true" if virtual else "false"
    if settings.endpoint is not None:
        endpoint = settings.endpoint.rstrip("/")
        options["aws_endpoint_url_s3"] = _with_bucket(endpoint, bucket) if virtual else endpoint
    return options


def _with_bucket(endpoint: str, bucket: str) -> str:
    """The clients take a virtual-hosted endpoint as it is, so the bucket must be in it already."""
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{host}" if host.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{host}"
