"""What the client and the server say to each other.

    server -> client   HELLO: somebody is there who will take what is sent
    client -> server   RUN, the length of the request, the request; with it descriptors
    server -> client   WARM and the new process's pid, with it a pidfd; or COLD and the reason
    client -> process  GO, read by the new process itself: without it, it ends having done nothing
    server -> client   ENDED and the status, as `wait` gives it

Files that are sent to a process that does not run stay open until it does, and whoever reads from
them waits for their end; hence HELLO. A command is run exactly once, whoever dies at whatever
moment: before GO the client runs it cold, after GO it never does. Texts in a request end with NUL,
which neither an argument nor a variable can contain.
"""

from __future__ import annotations

import sys

RUN, STATUS, STOP = b"R", b"S", b"Q"
WARM, COLD, ENDED = b"W", b"C", b"E"
HELLO, GO = b"H", b"G"
HEAD_BYTES = 9
ANSWER_BYTES = 9
REQUEST_BYTES_MAX = 64 << 20


class Request:
    """Everything that a process has and that a fork of the server lacks."""

    __slots__ = ("arguments", "blocked", "descriptors", "environment", "ignored", "likeness", "umask")

    def __init__(
        self,
        likeness: bytes,
        umask: int,
        ignored: int,
        blocked: int,
        descriptors: list[int],
        arguments: list[bytes],
        environment: list[bytes],
    ) -> None:
        self.likeness = likeness
        self.umask, self.ignored, self.blocked = umask, ignored, blocked
        self.descriptors = descriptors  # the number that each descriptor sent along must have
        self.arguments, self.environment = arguments, environment

    def encoded(self) -> bytes:
        numbers = ",".join(map(str, self.descriptors))
        own = f"{self.umask} {self.ignored} {self.blocked} {numbers} {len(self.arguments)}".encode()
        return b"\0".join((self.likeness, own, *self.arguments, *self.environment))


def claims(body: bytearray) -> tuple[bytes, int]:
    """The likeness, and how many descriptors come along. All else is for the new process alone."""
    like, end = body.find(b"\0"), body.find(b"\0", body.find(b"\0") + 1)
    if like < 0:
        raise ValueError("no likeness")
    numbers = body[like + 1 : end if end >= 0 else len(body)].split(b" ")[3]
    return bytes(body[:like]), numbers.count(b",") + 1


def decoded(body: bytes) -> Request:
    """Raises ValueError for anything that `encoded` does not give."""
    likeness, own, *rest = body.split(b"\0")
    umask, ignored, blocked, numbers, count = own.decode().split(" ")
    arguments, environment = rest[: int(count)], rest[int(count) :]
    descriptors = [int(number) for number in numbers.split(",")]
    return Request(likeness, int(umask), int(ignored), int(blocked), descriptors, arguments, environment)


def head(kind: bytes, length: int = 0) -> bytes:
    return kind + length.to_bytes(HEAD_BYTES - 1, "big")


def answer(kind: bytes, number: int = 0) -> bytes:
    return kind + number.to_bytes(ANSWER_BYTES - 1, "big", signed=True)


def packed(descriptors: list[int]) -> bytes:
    """As SCM_RIGHTS wants them; without `array`, which the client would have to load."""
    return b"".join(each.to_bytes(4, sys.byteorder) for each in descriptors)


def unpacked(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) - 3, 4)]
