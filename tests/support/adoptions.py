"""The steps of an adoption by their failpoints, and the fixture that comes by each."""

from __future__ import annotations

# In the order in which they come.
BEFORE = [
    "adopt.locked",
    "adopt.recorded",
    "adopt.control_relocated",
    "adopt.relocated",
    "tables.columns_added",
    "adopt.history_table",
    "adopt.drift_put_back",
    "adopt.nulls_written",
    "adopt.table_settled",
    "adopt.table",
    "adopt.kept",
    "adopt.branch_manifest",
    "adopt.branch_published",
    "adopt.main_manifest",
    "manifest.before_publish",
]
AFTER = [
    "adopt.published",
    "history.actor_recorded",
    "history.commit_recorded",
    "schema.promoted._schema.ir.json",
    "schema.promoted.__schema_state.json",
    "adopt.promoted",
    "adopt.done",
]
NEEDS = {
    "adopt.drift_put_back": "deletes",
    "adopt.nulls_written": "rich",
}
