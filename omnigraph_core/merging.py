"""The part of the facade that joins branches and takes commits back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph_core import arguments, layout
from omnigraph_core.writes import GraphWrites

if TYPE_CHECKING:
    from omnigraph_core.merge.resolve import Resolution
    from omnigraph_core.merge.run import Merge, Merged
    from omnigraph_core.write.plan import WriterKind


class GraphMerges(GraphWrites):
    """An open graph whose branches can be merged."""

    def merge(
        self,
        source: str,
        into: str = layout.MAIN_BRANCH,
        *,
        strategy: str = "fail",
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        resolution: Resolution | None = None,
        dry_run: bool = False,
    ) -> Merged:
        """Merge a branch into another as one commit with two parents; none if it has nothing new.

        With `strategy` `ours` or `theirs` that side wins where both changed the same; otherwise
        all conflicts are raised at once, and nothing changes. A resolution
        (`merge.resolve.read_resolution`) has choices for them.
        """
        arguments.texts(source=source, into=into)
        from omnigraph_core.write.plan import WriterKind

        kind = WriterKind.BRANCH_MERGE
        merging = self._merging(strategy, actor, message, if_commit, resolution, dry_run, kind)
        return merging.branch(self._line(source), self._line(into))

    def revert(
        self,
        ref: str,
        branch: str = layout.MAIN_BRANCH,
        *,
        strategy: str = "fail",
        actor: str | None = None,
        message: str | None = None,
        resolution: Resolution | None = None,
        dry_run: bool = False,
    ) -> Merged:
        """Take back what one commit did, as a new commit. Of a merge, what it brought to its branch.

        No commit if nothing of it is left.
        """
        arguments.texts(ref=ref, branch=branch)
        from omnigraph_core.write.plan import WriterKind

        commit = self._readable_commit(ref)
        named = message if message is not None else f"Revert {commit.commit_id}"
        about = {"reverts": commit.commit_id}
        kind = WriterKind.REVERT
        merging = self._merging(strategy, actor, named, None, resolution, dry_run, kind, about)
        return merging.revert(commit, self._line(branch))

    def reset_branch(
        self,
        name: str,
        ref: str,
        *,
        actor: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
    ) -> Merged:
        """Make a branch hold what a ref holds, as a new commit: its old head stays in its history.

        No commit if it holds that already.
        """
        arguments.texts(name=name, ref=ref)
        from omnigraph_core.write.plan import WriterKind

        commit = self._readable_commit(ref)
        named = message if message is not None else f"Reset to {commit.commit_id}"
        about = {"resets_to": commit.commit_id}
        merging = self._merging("fail", actor, named, None, None, dry_run, WriterKind.RESET, about)
        return merging.reset(self._line(name), commit)

    def _merging(
        self,
        strategy: str,
        actor: str | None,
        message: str | None,
        if_commit: str | None,
        resolution: Resolution | None,
        dry_run: bool,
        kind: WriterKind,
        about: Mapping[str, object] | None = None,
    ) -> Merge:
        arguments.texts(strategy=strategy)
        arguments.optional_texts(actor=actor, message=message, if_commit=if_commit)
        arguments.flags(dry_run=dry_run)
        from omnigraph_core.change.plan import Intent
        from omnigraph_core.merge.resolve import Resolution
        from omnigraph_core.merge.rows import Preference
        from omnigraph_core.merge.run import Merge

        if resolution is not None:
            arguments.instance("resolution", resolution, Resolution, "a resolution or None")

        prefer = None if strategy == "fail" else arguments.choice("strategy", strategy, Preference)
        intent = Intent(kind, self._signed(actor), message, if_commit, about=about or {})
        return Merge(
            self._door_for(dry_run=dry_run), intent, prefer=prefer, resolution=resolution, dry_run=dry_run
        )
