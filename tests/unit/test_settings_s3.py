"""What the `AWS_*` variables mean, and what is refused before any request is sent."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from omnigraph_core.errors import UsageError
from omnigraph_core.settings import S3Settings, load_settings
from omnigraph_core.storage import StorageOptions, open_storage, parse_location

SECRET = "a-secret-that-must-not-be-shown"
TOKEN = "a-token-that-must-not-be-shown"
KEYS = {"AWS_ACCESS_KEY_ID": "the-key-id", "AWS_SECRET_ACCESS_KEY": SECRET}


def read(**environment: str) -> S3Settings:
    return load_settings(environment, Path("/")).s3


def options(**environment: str) -> StorageOptions:
    storage = open_storage(
        parse_location("s3://bucket/a/g", Path("/")), load_settings(environment, Path("/"))
    )
    assert storage.lance_options is not None
    return storage.lance_options


def test_nothing_set() -> None:
    assert read() == S3Settings()
    assert read().region == "us-east-1"
    assert read().lease_ttl_s == 10


def test_everything_set() -> None:
    found = read(
        **KEYS,
        AWS_SESSION_TOKEN=TOKEN,
        AWS_REGION="eu-central-1",
        AWS_ENDPOINT_URL="http://any",
        AWS_ENDPOINT_URL_S3="http://mine:9000",
        AWS_S3_FORCE_PATH_STYLE="true",
        AWS_ALLOW_HTTP="1",
        OMNIGRAPH_LEASE_TTL="2.5",
        OMNIGRAPH_LEASE_DEAD_AFTER="40",
    )
    assert found == S3Settings(
        region="eu-central-1",
        access_key_id="the-key-id",
        secret_access_key=SECRET,
        session_token=TOKEN,
        endpoint="http://mine:9000",
        force_path_style=True,
        allow_http=True,
        lease_ttl_s=2.5,
        lease_dead_after_s=40,
    )


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({"AWS_ENDPOINT_URL": "https://any"}, "https://any"),
        ({"AWS_ENDPOINT_URL_S3": "https://mine"}, "https://mine"),
        ({"AWS_ENDPOINT_URL": "https://any", "AWS_ENDPOINT_URL_S3": ""}, "https://any"),
        ({"AWS_ENDPOINT_URL": "https://any", "AWS_ENDPOINT_URL_S3": "https://mine"}, "https://mine"),
    ],
)
def test_the_s3_endpoint_wins(environment: dict[str, str], endpoint: str) -> None:
    assert read(**environment).endpoint == endpoint
    assert options(**environment)["aws_endpoint_url_s3"] == endpoint


@pytest.mark.parametrize("text", ["http://127.0.0.1:9000", "HTTP://host"])
def test_http_must_be_allowed(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(AWS_ENDPOINT_URL_S3=text)
    assert "AWS_ALLOW_HTTP=true" in str(caught.value.hint)
    with pytest.raises(UsageError):
        options(AWS_ENDPOINT_URL_S3=text, AWS_ALLOW_HTTP="false")
    assert options(AWS_ENDPOINT_URL_S3=text, AWS_ALLOW_HTTP="true")["allow_http"] == "true"


@pytest.mark.parametrize(
    "endpoint",
    [
        "localhost:9000",
        "http://",
        "ftp://host",
        "http://host:port",
        "http://a b",
        "https://h/?q",
        "http://h:0",
    ],
)
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(UsageError, match="not the address of a server"):
        options(AWS_ENDPOINT_URL_S3=endpoint, AWS_ALLOW_HTTP="true")


def test_an_endpoint_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError) as caught:
        options(AWS_ENDPOINT_URL=f"https://me:{SECRET}@host")
    assert SECRET not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("given", KEYS)
def test_half_a_pair_of_credentials_is_refused(given: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(**{given: KEYS[given]})
    assert f"{given} is set" in caught.value.message
    assert SECRET not in caught.value.message


@pytest.mark.parametrize("ttl", ["0", "0.01", "-1", "soon"])
def test_a_lease_must_last(ttl: str) -> None:
    with pytest.raises(UsageError, match="OMNIGRAPH_LEASE_TTL"):
        options(OMNIGRAPH_LEASE_TTL=ttl)


def test_a_local_graph_does_not_care(tmp_path: Path) -> None:
    settings = load_settings({"AWS_ENDPOINT_URL": "http://host", "AWS_ACCESS_KEY_ID": "x"}, tmp_path)
    storage = open_storage(parse_location("g", tmp_path), settings)
    storage.probe()
    assert storage.lance_options is None


@pytest.mark.parametrize(
    ("environment", "style", "endpoint"),
    [
        ({}, "false", None),
        ({"AWS_S3_FORCE_PATH_STYLE": "true"}, "false", None),
        ({"AWS_S3_FORCE_PATH_STYLE": "false"}, "true", None),
        ({"AWS_ENDPOINT_URL": "https://h:1/"}, "false", "https://h:1"),
        (
            {"AWS_ENDPOINT_URL": "https://h:1", "AWS_S3_FORCE_PATH_STYLE": "false"},
            "true",
            "https://bucket.h:1",
        ),
        (
            {"AWS_ENDPOINT_URL": "https://bucket.h", "AWS_S3_FORCE_PATH_STYLE": "0"},
            "true",
            "https://bucket.h",
        ),
    ],
)
def test_path_style(environment: dict[str, str], style: str, endpoint: str | None) -> None:
    found = options(**environment)
    assert found["aws_virtual_hosted_style_request"] == style
    assert found.get("aws_endpoint_url_s3") == endpoint


def test_lance_gets_the_credentials_and_the_region() -> None:
    found = options(**KEYS, AWS_SESSION_TOKEN=TOKEN, AWS_REGION="eu-central-1")
    assert found["aws_access_key_id"] == "the-key-id"
    assert found["aws_secret_access_key"] == SECRET
    assert found["aws_session_token"] == TOKEN
    assert found["aws_region"] == "eu-central-1"
    assert "aws_endpoint_url_s3" not in found
    assert not any(name.endswith(("key", "key_id", "token")) for name in options())


def test_no_secret_is_ever_shown() -> None:
    settings = load_settings({**KEYS, "AWS_SESSION_TOKEN": TOKEN}, Path("/"))
    storage = open_storage(parse_location("s3://bucket/g", Path("/")), settings)
    lance = storage.lance_options
    assert lance is not None
    sent = pickle.loads(pickle.dumps(lance))
    assert sent == lance
    shown = f"{settings!r} {settings.s3} {storage!r} {lance} {lance!r} {sent!r}"
    for secret in (SECRET, TOKEN, "the-key-id"):
        assert secret not in shown
