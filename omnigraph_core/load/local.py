"""A load in this process: it reads the inputs, and keeps their rows until they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.load.held_rows import SpooledRows
from omnigraph_core.load.inputs import Input, read_inputs
from omnigraph_core.load.renaming import Renamings
from omnigraph_core.load.roles import Read, Reading
from omnigraph_core.load.staging import Stager
from omnigraph_core.rules.changeset import Origin, TableChange
from omnigraph_core.rules.values import check_values


class RowsHere:
    """The rows of a load that wait in this process."""

    def __init__(self) -> None:
        self.rows: dict[str, SpooledRows] = {}
        self._renamings: Renamings | None = None

    def take(self, pieces: Iterable[TypedRows], reading: Reading) -> None:
        """Keep rows. Their values are checked at once, everything else when all of them are here."""
        self._renamings = renamings = Renamings(reading.budget)
        for piece in pieces:
            key = piece.entity.table_key
            if key not in self.rows:
                self.rows[key] = SpooledRows(piece.entity, reading.budget)
            origin = Origin.of(piece.source, piece.lines, self.rows[key].count)
            check_values(TableChange(piece.entity, piece.rows, origin), reading.violations)
            if reading.request.is_rejecting or not reading.violations.total:
                self.rows[key].add(piece)
                renamings.add(piece, self.rows[key])
        if reading.request.is_rejecting or not reading.violations.total:
            renamings.settle(self.rows, reading.violations)

    def staging(self, reading: Reading) -> Stager:
        return Stager(reading.door.storage, reading.record, self.rows, reading.progress)

    def close(self) -> None:
        for rows in self.rows.values():
            rows.close()
        if self._renamings is not None:
            self._renamings.close()


class LocalSource:
    """Files, or standard input."""

    writes_tables = False

    def __init__(self, given: Sequence[Input]) -> None:
        self._given = given
        self._here = RowsHere()

    def read(self, reading: Reading) -> Read:
        pieces = read_inputs(self._given, reading.schema, reading.violations, reading.progress)
        self._here.take(pieces, reading)
        return Read(self._here.rows, self._inputs)

    def staging(self, reading: Reading) -> Stager:
        return self._here.staging(reading)

    def close(self) -> None:
        self._here.close()

    def _inputs(self) -> list[dict[str, object]]:
        return [{"name": each.name, "sha256": each.sha256, "bytes": each.bytes_read} for each in self._given]
