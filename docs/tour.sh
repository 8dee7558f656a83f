#!/usr/bin/env bash
# The tour of `make demo`: the tool's main job on a local graph in a fresh directory.
# usage: docs/tour.sh DIRECTORY_OF_THE_OMNIGRAPH_COMMAND
set -euo pipefail
writer=$(cd "$(dirname "$0")" && pwd)/tour_writer.py
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
run omnigraph snapshot

say "Write two tables in one commit (a small script on the library, until load exists)."
printf '$ python tour_writer.py graph.omni main Ann\n'
OMNIGRAPH_ACTOR=ann python "$writer" graph.omni main Ann

say "Branch, and write there: main does not move."
run omnigraph branch create review
OMNIGRAPH_ACTOR=bob python "$writer" graph.omni review Bob
run omnigraph branch list
run omnigraph commit list

say "Kill a writer between its tables and its publish (kill -9, at a failpoint)."
OMNIGRAPH_ACTOR=bob OMNIGRAPH_FAILPOINTS=write.after_b=kill python "$writer" graph.omni review Cy 2>/dev/null ||
  echo "exit code $?: killed"
run omnigraph status

say "The next command that may write finishes it, and the history says who did."
run omnigraph recovery run
run omnigraph commit list --filter actor=omnigraph:recovery
run omnigraph recovery list

say "Time travel: any commit is still there."
run omnigraph snapshot --branch review
run omnigraph snapshot --snapshot review~1 --json

say "A mistake is one clear message with its place, and changes nothing."
printf 'node Person {\n  name: String @key\n  age: I32,\n}\n' > broken.pg
run omnigraph init --schema broken.pg other.omni || echo "exit code $?"

say "Done; the graph was in a temporary directory and is gone."
