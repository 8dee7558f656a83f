"""The part of the facade that names commits: branches, and tags."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph_core import arguments, layout
from omnigraph_core.maintaining import GraphMaintenance

if TYPE_CHECKING:
    from omnigraph_core.history.deleted import DeletedBranch
    from omnigraph_core.history.log import GraphCommit
    from omnigraph_core.history.tags import Tag
    from omnigraph_core.write.moves import Note


class GraphBranches(GraphMaintenance):
    """An open graph whose branches and tags come and go."""

    def branches(self) -> list[str]:
        names = self._names()
        if not names.entries:
            return self._manifest.branch_names()
        live = [each for each in self._live() if each.name != layout.SCHEMA_LOCK_BRANCH]
        return sorted([layout.MAIN_BRANCH, *(names.of(each) for each in live)])

    def create_branch(
        self,
        name: str,
        source: str = layout.MAIN_BRANCH,
        *,
        actor: str | None = None,
        message: str | None = None,
    ) -> GraphCommit:
        """Make a branch that starts at a ref; returns the commit it starts at."""
        arguments.texts(name=name, source=source)
        from omnigraph_core.write.branches import create_branch

        note = self._note(actor, message)
        commit = self._readable_commit(source)
        line = self._new_line(name.strip())
        called = None if line == name.strip() else name.strip()
        create_branch(self.door, line, commit, note, called=called)
        return commit

    def rename_branch(
        self, name: str, new: str, *, actor: str | None = None, message: str | None = None
    ) -> None:
        """Call a branch otherwise. It stays the same branch, with its history, tags and descendants."""
        arguments.texts(name=name, new=new)
        from omnigraph_core.write.rename import rename_branch

        note = self._note(actor, message)
        called = name.strip()
        branch = self._manifest.branch(self._line(called))
        rename_branch(self.door, branch, called, new, note)

    def delete_branch(
        self,
        name: str,
        *,
        actor: str | None = None,
        message: str | None = None,
        only_at: str | None = None,
    ) -> None:
        """Delete a branch; with `only_at`, only if that commit still is its head.

        It is put aside until cleanup, or until its name is used again.
        """
        arguments.texts(name=name)
        arguments.optional_texts(only_at=only_at)
        from omnigraph_core.write.branches import delete_branch

        called, note = name.strip(), self._note(actor, message)
        delete_branch(self.door, self._line(called), note, only_at=only_at, called=called)

    def deleted_branches(self) -> list[DeletedBranch]:
        """Deleted branches that can be brought back, the one deleted first comes first."""
        from omnigraph_core.history.deleted import read_deleted

        return read_deleted(self._storage.control)

    def undelete_branch(
        self, name: str, *, actor: str | None = None, message: str | None = None
    ) -> DeletedBranch:
        """Bring back the branch of this name that was deleted last, as it was."""
        arguments.texts(name=name)
        from omnigraph_core.write.naming import BranchExists
        from omnigraph_core.write.undelete import NothingToUndelete, undelete_branch

        note, names = self._note(actor, message), self._names()
        if not names.entries:
            return undelete_branch(self.door, name, note)
        found = [each for each in self.deleted_branches() if names.of(each.on) == name.strip()]
        if not found and self._live_line(name.strip()) is not None:
            raise BranchExists(name.strip())
        if not found:
            raise NothingToUndelete(name.strip())
        return undelete_branch(self.door, found[-1].name, note, identity=found[-1].fork.identity)

    def tags(self) -> list[Tag]:
        """All tags, by name."""
        from omnigraph_core.history.tags import read_tags

        names, tags = self._names(), read_tags(self._storage.control)
        return [replace(each, on=replace(each.on, name=names.of(each.on))) for each in tags]

    def create_tag(
        self,
        name: str,
        ref: str = layout.MAIN_BRANCH,
        *,
        actor: str | None = None,
        message: str | None = None,
    ) -> Tag:
        """Name the commit that a ref names now; `tag:NAME` is that commit from then on."""
        arguments.texts(name=name, ref=ref)
        from omnigraph_core.write.tags import create_tag

        note = self._note(actor, message)
        commit = self._readable_commit(ref)
        tag = create_tag(self.door, name, commit, note, message)
        return replace(tag, on=replace(tag.on, name=commit.shown_branch))

    def delete_tag(self, name: str, *, actor: str | None = None, message: str | None = None) -> Tag | None:
        """Give a tag up; returns what it named, None if nobody could read that."""
        arguments.texts(name=name)
        from omnigraph_core.write.tags import delete_tag

        return delete_tag(self.door, name, self._note(actor, message))

    def _note(self, actor: str | None, message: str | None, undoes: str | None = None) -> Note:
        arguments.optional_texts(actor=actor, message=message)
        from omnigraph_core.write.moves import Note

        return Note(self._signed(actor), message, undoes)
