"""What was asked and what was answered, by everybody, with one clock."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.storm.commands import Command
from tests.storm.nemesis import Answer
from tests.storm.steps import Step

UNKNOWN = "outcome is unknown"


@dataclass(frozen=True)
class Call:
    step: Step
    command: Command
    called: float
    returned: float
    answer: Answer

    @property
    def is_done(self) -> bool:
        return self.answer.code == 0

    @property
    def is_unknown(self) -> bool:
        """Nobody was told what became of it; then it may have happened until now, or not at all."""
        return self.answer.was_killed or UNKNOWN in self.answer.err

    @property
    def told(self) -> dict[str, Any]:
        """The answer, where it is one JSON object; an export is lines of them."""
        is_object = self.is_done and self.answer.out.startswith("{\n")
        told: dict[str, Any] = json.loads(self.answer.out) if is_object else {}
        return told

    @property
    def commit(self) -> str | None:
        found = self.told.get("commit")
        return found if isinstance(found, str) else None

    def __str__(self) -> str:
        said = " ".join(f"{self.answer.out} {self.answer.err}".split())
        fault = f" [{self.answer.fault}]" if self.answer.fault else ""
        asked = " ".join(self.command.argv)
        when = f"{self.called:.3f}–{self.returned:.3f}"
        return f"{self.step.name} {when}{fault} {asked} → {self.answer.code}: {said[:600]}"


@dataclass
class Journal:
    """Also tells workers which commits there are to name."""

    path: Path
    calls: list[Call] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    meanings: dict[str, dict[str, Any]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def call(self, step: Step, command: Command, run: Callable[[Step, Command], Answer]) -> Call:
        if command.meaning is not None:
            self.meanings[step.name] = command.meaning
        called = time.monotonic()
        answer = run(step, command)
        call = Call(step, command, called, time.monotonic(), answer)
        with self._guard:
            self.calls.append(call)
            if call.commit is not None:
                self.commits.append(call.commit)
            with self.path.open("a") as lines:
                record = {"step": asdict(step), "argv": command.argv, "stdin": command.stdin[:2_000]}
                record |= {"called": called, "returned": call.returned, "answer": asdict(answer)}
                lines.write(json.dumps(record) + "\n")
        return call
