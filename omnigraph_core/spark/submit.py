"""spark-submit: finding, starting, watching and, if necessary, stopping it.

Everything Spark says goes to a log file, which is named when the job fails and removed
when it does not.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

from omnigraph_core.errors import OmnigraphError, StorageError, UsageError
from omnigraph_core.progress import Progress, ProgressEvent
from omnigraph_core.settings import Settings, environment_for_child
from omnigraph_core.spark.driver import ACCESS_CONF, KIND_CONF, OPERATION_CONF, PLACE_CONF, encode_access
from omnigraph_core.spark.java import java_of_python, make_java_home
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.outcome import JobAborted, read_result
from omnigraph_core.spark.progress import read_progress
from omnigraph_core.spark.spec import JobKind, JobSpec
from omnigraph_core.storage import Storage

_POLL_S = 0.1
_PROGRESS_S = 0.5
_STOP_S = 10.0

_LOGGING = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

# What a load is better off with than with Spark's defaults; --spark-conf wins.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
}


# Rows never go through the JVM of a local Spark, so it is not worth compiling well:
# a third of the CPU time of a small job.
_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Job(Protocol):
    """What a driver is told to do: by a file in its folder, below its place."""

    @property
    def kind(self) -> JobKind: ...

    @property
    def place(self) -> str: ...

    @property
    def operation_id(self) -> str: ...

    @property
    def folder(self) -> str: ...


class SparkFailed(StorageError):
    """The job ended without a result."""


def find_submit(options: SparkOptions, settings: Settings) -> Path:
    """The spark-submit to use; raises UsageError if there is none, or no Java to run it."""
    named = options.spark_home or settings.spark.spark_home
    if named is not None:
        home = Path(named)
    else:
        found = importlib.util.find_spec("pyspark")
        if found is None or found.origin is None:
            raise UsageError(
                "Spark needs pyspark, which is not installed",
                hint="pip install 'omnigraph[spark]'",
            )
        home = Path(found.origin).parent
    submit = home / "bin" / "spark-submit"
    if not submit.is_file():
        raise UsageError(
            f"there is no Spark in {home}",
            hint="name the directory that has bin/spark-submit",
            field="spark.home",
        )
    java_of_python(settings)
    return submit


class Submission:
    """One spark-submit of one job."""

    def __init__(
        self, storage: Storage, settings: Settings, options: SparkOptions, progress: Progress
    ) -> None:
        self._storage, self._settings, self._options = storage, settings, options
        self._progress = progress
        self._submit = find_submit(options, settings)

    def run(self, spec: Job) -> None:
        """Run the job to its end; raises SparkFailed with the name of the log if it dies."""
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-spark-"))
        log = folder / "spark.log"
        try:
            code = self._run(spec, folder, log)
            reason = self._failure(spec, code)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if reason is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        _leave_only(folder, log)
        raise SparkFailed(f"{reason}; nothing was changed", hint=f"Spark's log is in {log}")

    def _failure(self, spec: Job, code: int) -> str | None:
        """Why the log is worth keeping; None if there is a result, or a failure that says it all."""
        try:
            if read_result(self._storage, spec.folder) is None:
                return f"the Spark job exited with code {code} and left no result"
        except JobAborted as error:
            return str(error)
        except OmnigraphError:
            return None
        return None

    def _run(self, spec: Job, folder: Path, log: Path) -> int:
        command, environment = self._command(spec, folder, log)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is ours to answer: a group of its own does not hear it.
                start_new_session=True,
            )
        with _terminated_as_interrupted():
            try:
                return self._watch(process, spec)
            finally:
                _stop(process)

    def _watch(self, process: subprocess.Popen[bytes], spec: Job) -> int:
        self._progress(ProgressEvent("start spark", 0))
        told = time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_POLL_S)
            if time.monotonic() - told >= _PROGRESS_S:
                told = time.monotonic()
                found = read_progress(self._storage, spec.folder)
                if found is not None:
                    self._progress(ProgressEvent(found.title, found.rows, None, "rows"))

    def _command(self, spec: Job, folder: Path, log: Path) -> tuple[list[str], dict[str, str]]:
        options = self._options
        conf = dict(_DEFAULTS)
        environment = {"PYTHONWARNINGS": "ignore", "SPARK_SUBMIT_OPTS": self._logging(folder, log)}
        java = java_of_python(self._settings)
        if java is not None:
            environment["JAVA_HOME"] = str(make_java_home(folder, java))
        if not options.in_cluster:
            environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if options.is_here:
            environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
            conf["spark.local.dir"] = str(folder)
        conf |= dict(each.split("=", 1) for each in options.conf)
        conf |= {PLACE_CONF: spec.place, OPERATION_CONF: spec.operation_id, KIND_CONF: spec.kind.value}
        command = [
            str(self._submit),
            "--master",
            options.master_url,
            "--name",
            f"omnigraph {spec.kind.value}",
        ]
        if options.deploy_mode is not None:
            command += ["--deploy-mode", options.deploy_mode]
        if options.in_cluster:
            command += self._access(folder)
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        if options.py_files:
            command += ["--py-files", ",".join(options.py_files)]
        if options.packages:
            command += ["--packages", ",".join(options.packages)]
        command.append(str(Path(__file__).with_name("job.py")))
        return command, environment_for_child(self._settings, environment)

    def _logging(self, folder: Path, log: Path) -> str:
        properties = folder / "log4j2.properties"
        properties.write_text(_LOGGING.format(log=log))
        mine = f"-Dlog4j2.configurationFile={properties.as_uri()}"
        return f"{mine} {_SMALL_JVM}" if self._options.is_local else mine

    def _access(self, folder: Path) -> list[str]:
        """The S3 access for a driver elsewhere: in a file that only we can read, never in a command line."""
        path = folder / "access.properties"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(f"{ACCESS_CONF}={encode_access(self._settings)}\n")
        return ["--properties-file", str(path), "--load-spark-defaults"]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop Spark and everything it started: first politely, then by force."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
            return


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A `kill` of this process stops Spark too, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave_only(folder: Path, log: Path) -> None:
    for each in folder.iterdir():
        if each != log:
            shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink(missing_ok=True)


Runner = Callable[[JobSpec], None]
"""Runs a job to its end; a `Submission.run`, or in a test the driver itself."""
Conf = Mapping[str, str]
