"""Where topology indexes are kept: records and files in one folder of a graph.

Nothing here is anybody's data. What is missing, short, foreign or damaged is as good as not there, and
may be removed at any time: a file that is mapped lives until it is let go.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.ids import new_ulid
from omnigraph_core.storage import Storage, Stored
from omnigraph_core.storage.copies import LocalCopies
from omnigraph_core.storage.mapped import mapped_file
from omnigraph_core.topology.format import NotTopology, decoded, encoded, is_file, is_sound
from omnigraph_core.topology.record import StoredFile, TopologyRecord, record_from

if TYPE_CHECKING:
    from omnigraph_core.topology.format import Arrays

_RECORD = ".json"

# Branches that have parted far may each have been indexed; older ones are of states that few read.
KEPT_RECORDS = 3


class TopologyStore:
    """The indexes of one graph."""

    def __init__(self, storage: Storage, copies: LocalCopies | None = None) -> None:
        """What is fetched over a network is kept in `copies`, and in memory if there are none."""
        self._storage = storage
        self._copies = copies
        self._control = storage.control
        self._records: dict[str, TopologyRecord] = {}
        self._mapped: WeakValueDictionary[str, mmap.mmap] = WeakValueDictionary()

    def records(self) -> list[TopologyRecord]:
        """Those that can be read, the newest first."""
        try:
            names = [name for name in self._control.list(layout.TOPOLOGY_DIR) if name.endswith(_RECORD)]
        except OmnigraphError:
            return []
        found = [self._record(name.removesuffix(_RECORD)) for name in sorted(names, reverse=True)]
        return [each for each in found if each is not None]

    def _record(self, name: str) -> TopologyRecord | None:
        if name not in self._records:
            try:
                found = self._control.get(layout.topology_file(name + _RECORD))
            except OmnigraphError:
                return None
            record = None if found is None else record_from(name, found.data)
            if record is None:
                return None
            self._records[name] = record
        return self._records[name]

    def arrays(self, file: StoredFile) -> Arrays:
        """NotTopology if the file is not there, or not what the record says."""
        data = self._data(file)
        if data is None:
            raise NotTopology(f"{file.name}: not there, or not whole")
        return decoded(file.name, data)

    def are_whole(self, files: Iterable[StoredFile]) -> bool:
        """Are those that this process has mapped still as long as they were?"""
        mapped = ((file, self._mapped.get(file.name)) for file in files)
        return all(found is None or found.size() == file.size for file, found in mapped)

    def is_sound(self, file: StoredFile) -> bool:
        """Is it there, and what was written? Reads all of it."""
        try:
            data = self._data(file)
        except NotTopology:
            return False
        return data is not None and is_sound(file.name, data)

    def _data(self, file: StoredFile) -> memoryview | None:
        path = layout.topology_file(file.name)
        try:
            if self._storage.location.is_local:
                return self._held(file, mapped_file(self._storage.location.path, path, file.size))
            return self._copied(file) or self._fetched(file, path)
        except OmnigraphError as error:
            raise NotTopology(f"{file.name}: {error}") from error

    def _copied(self, file: StoredFile) -> memoryview | None:
        if self._copies is None:
            return None
        found = self._held(file, self._copies.get(file.name, file.size))
        if found is None or is_file(file.name, found):
            return found
        self._copies.drop(file.name)
        return None

    def _fetched(self, file: StoredFile, path: str) -> memoryview | None:
        found = self._control.get(path)
        if found is None or len(found.data) != file.size or not is_sound(file.name, memoryview(found.data)):
            return None
        if self._copies is not None:
            self._copies.keep(file.name, found.data)
        return self._copied(file) or memoryview(found.data)

    def _held(self, file: StoredFile, mapped: mmap.mmap | None) -> memoryview | None:
        if mapped is None:
            return None
        self._mapped[file.name] = mapped
        return memoryview(mapped)

    def write(self, kind: str, arrays: Arrays) -> StoredFile:
        """A new file. Until a record names it, nobody looks at it."""
        name = f"{new_ulid()}.{kind}"
        data = encoded(name, arrays)
        self._control.create(layout.topology_file(name), data)
        return StoredFile(name, len(data))

    def files(self) -> Mapping[str, Stored]:
        """Everything there is, by name: records, what they name, and what nobody names."""
        found = self._control.listing(layout.TOPOLOGY_DIR)
        return {path.removeprefix(f"{layout.TOPOLOGY_DIR}/"): each for path, each in found.items()}

    def superseded(self) -> list[str]:
        """What no reader needs: all but the newest records, and files that none of those names.

        Records come first: nobody is to find one without its files. A builder at work has files that no
        record names yet.
        """
        kept = self.records()[:KEPT_RECORDS]
        named = {each.name + _RECORD for each in kept}.union(*(each.file_names for each in kept))
        return sorted(self.files().keys() - named, key=lambda name: (not name.endswith(_RECORD), name))

    def remove_damaged(self) -> None:
        """Records of which a part is not there, or not what was written; their files are left to cleanup."""
        for record in self.records():
            if not all(self.is_sound(file) for part in record.parts for file in part.files):
                self._records.pop(record.name, None)
                self.remove([record.name + _RECORD])

    def remove(self, names: Sequence[str]) -> None:
        self._control.delete_many([layout.topology_file(name) for name in names])

    def publish(self, record: TopologyRecord) -> None:
        """From here on the index is used."""
        self._control.create(layout.topology_file(record.name + _RECORD), record.to_json())
