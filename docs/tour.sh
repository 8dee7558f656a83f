#!/usr/bin/env bash
# The tour of `make demo`: the tool's main job on a local graph in a fresh directory.
# usage: docs/tour.sh DIRECTORY_OF_THE_OMNIGRAPH_COMMAND
set -euo pipefail
export PATH="$1:$PATH"
unset OMNIGRAPH_STORE OMNIGRAPH_BRANCH OMNIGRAPH_ACTOR
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

say "A schema says which nodes and edges there are."
cat > people.pg <<'PG'
node Person {
  name: String @key
  age: I32?
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1)
PG
run cat people.pg

say "Create a graph from it: one Lance dataset a type, one atomic publish."
run omnigraph init --schema people.pg --as ann --message "first day"

say "What is published now, for people and for scripts."
run omnigraph snapshot
run omnigraph snapshot --json

say "A mistake is one clear message with its place, and changes nothing."
printf 'node Person {\n  name: String @key\n  age: I32,\n}\n' > broken.pg
run omnigraph init --schema broken.pg other.omni || echo "exit code $?"

say "Done; the graph was in a temporary directory and is gone."
