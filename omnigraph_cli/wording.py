"""The options of the command line for the arguments that errors of the core are about.

An error of the core names an argument of the library in `field`; here it becomes an option.
Without a hint the argument is at fault, and its option leads the message: `--out: x is a
directory`. With a hint the argument is the remedy, and its option ends the hint: `write it
to a file with --out PATH`.
"""

from __future__ import annotations

from omnigraph_core.errors import OmnigraphError

OPTIONS: dict[str, str] = {
    "force": "--force",
    "format": "--format FORMAT",
    "keep": "--keep N",
    "lock_timeout": "--lock-timeout SECONDS",
    "mode": "--mode MODE",
    "out": "--out PATH",
    "params": "--param NAME=VALUE",
    "rejects": "--rejects FILE",
    "schema": "--schema FILE",
    "spark.conf": "--spark-conf K=V",
    "spark.deploy_mode": "--deploy-mode MODE",
    "spark.home": "--spark-home DIR",
    "spark.master": "--master URL",
    "type": "--type TYPE",
}


_TAKEN_BACK: dict[str, str] = {
    "branchcreate": "creation of",
    "branchdelete": "deletion of",
    "branchmerge": "merge into",
    "branchrename": "renaming of",
    "branchundelete": "return of",
    "schemaapply": "schema change on",
    "tagcreate": "creation of",
    "tagdelete": "deletion of",
}

_RECOVERED: dict[str, str] = {
    "RolledForward": "rolled forward",
    "RolledBack": "rolled back",
    "OrphanedBranchDiscarded": "discarded with its branch",
}


def taken_back(kind: str | None) -> str:
    """What an undo took back, up to the branch or tag: `merge into`, `load on`."""
    return _TAKEN_BACK.get(kind or "", f"{kind or 'commit'} on")


def recovered(kind: str) -> str:
    """What a recovery did about a write, in words."""
    return _RECOVERED.get(kind, kind)


def message_of(error: OmnigraphError) -> str:
    """What happened, in the words of the command line."""
    option = OPTIONS.get(error.field or "")
    if option is None or error.hint is not None:
        return str(error)
    return f"{option.split(' ')[0]}: {error}"


def hint_of(error: OmnigraphError) -> str | None:
    """What to do about it, in the words of the command line."""
    option = OPTIONS.get(error.field or "")
    return error.hint if option is None or error.hint is None else f"{error.hint} with {option}"
