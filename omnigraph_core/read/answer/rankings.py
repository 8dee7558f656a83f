"""The searches that the order or a column of a read needs, over the entities of all its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.query.checked import RankedSearch
from omnigraph_core.read.match.matcher import Matcher
from omnigraph_core.read.match.rows import Rows
from omnigraph_core.read.plan.steps import MatchPlan, ScanNodes
from omnigraph_core.read.search.ranking import Candidates, Ranking, ranked, ranked_variable
from omnigraph_core.topology.arrays import distinct

if TYPE_CHECKING:
    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray


class Rankings:
    """The rankings of one read, each made once."""

    def __init__(self, session: Session, matcher: Matcher, plan: MatchPlan, *, is_narrowed: bool) -> None:
        self._session = session
        self._matcher = matcher
        self._plan = plan
        self._is_narrowed = is_narrowed
        self._rankings: dict[RankedSearch, Ranking] = {}

    def add(self, search: RankedSearch, rows: Rows, limit: int | None) -> None:
        """Do a search; with a limit, no more than so many need be ranked."""
        variable = ranked_variable(search)
        with self._session.statistics.step(f"search for ${variable}") as step:
            entities = self._matcher.of_variable(variable)
            ranking = ranked(self._session, entities, search, self._candidates(variable, rows), limit)
            self._rankings[search] = ranking
            step.rows = len(ranking.codes)

    def ranked_rows(self, search: RankedSearch, rows: Rows) -> tuple[Rows, IntArray]:
        """Only rows whose entity is ranked, and their ranks."""
        ranks = self._places(search, rows)
        return rows.kept(ranks >= 0), ranks[ranks >= 0]

    def scores(self, search: RankedSearch, rows: Rows) -> pa.Array:
        """What the search says of each row's entity; null for one that is not ranked."""
        places = self._places(search, rows)
        scores = np.append(self._rankings[search].scores, 0.0)[places]
        return pa.array(scores, pa.float64(), mask=places < 0)

    def _places(self, search: RankedSearch, rows: Rows) -> IntArray:
        variable = ranked_variable(search)
        size = self._matcher.of_variable(variable).size
        return self._rankings[search].places(size)[rows.codes[variable]]

    def _candidates(self, variable: str, rows: Rows) -> Candidates:
        entities = self._matcher.of_variable(variable)
        codes, _ = distinct(rows.codes[variable], entities.size)
        first = self._plan.steps[0]
        is_scan = len(self._plan.steps) == 1 and isinstance(first, ScanNodes) and not first.searches
        if is_scan and not self._is_narrowed:
            assert isinstance(first, ScanNodes)
            return Candidates(codes, True, first.where)
        return Candidates(codes)
