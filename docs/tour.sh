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

say "A schema declares the node and edge types."
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

say "Create a graph from it: one Lance dataset per type, one atomic publish."
run omnigraph init --schema people.pg --as ann --message "first day"
run omnigraph snapshot

say "Load records, with nodes and edges in any order: checked as a whole, and one commit."
cat > people.jsonl <<'JSONL'
{"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"since": "2024-05-01"}}
{"type": "Person", "data": {"name": "Ann", "age": 30}}
{"type": "Person", "data": {"name": "Bob", "age": 25}}
{"type": "Company", "data": {"name": "Acme"}}
{"edge": "WorksAt", "from": "Ann", "to": "Acme"}
JSONL
run omnigraph load --data people.jsonl --mode append --as ann
run omnigraph export

say "Query it: patterns, hops, grouping, negation."
run omnigraph query -e 'query q() { match { $p: Person $p worksAt $c } return { $p.name as who, $c.name as firm } }'
run omnigraph query -e 'query q() { match { $p: Person not { $p worksAt $_ } } return { $p.name } }' --format table

say "Create a branch and change things there: main does not move."
run omnigraph branch create review
cat > changes.gq <<'GQ'
query birthday($who: String, $age: I32) {
  update Person set { age: $age } where name = $who
}
query leave($who: String) {
  delete Person where name = $who
}
GQ
run omnigraph change birthday --query changes.gq --param who=Ann --param age=31 --branch review --as bob
run omnigraph change leave --query changes.gq --param who=Bob --branch review --as bob --message "Bob left"
run omnigraph export --branch review --type Person --type Knows
run omnigraph commit list
run omnigraph commit show main

say "See what differs, and merge it: property by property, one commit with two parents."
run omnigraph diff main review
run omnigraph change birthday --query changes.gq --param who=Bob --param age=26 --as ann
run omnigraph branch merge review --dry-run
run omnigraph branch merge review --as ann || echo "exit code $?"
run omnigraph branch merge review --as ann --strategy theirs
run omnigraph commit list --graph

say "Ask who did it; take it back; take that back."
run omnigraph blame Person/Ann
run omnigraph undo --as ann
run omnigraph undo --as ann
run omnigraph op log --limit 3
run omnigraph export --type Person

say "Change the schema: metadata only wherever the data allows, one commit, other branches keep theirs."
sed -i 's/age: I32?/age: I64?\n  city: String? @default("Ulm")/' people.pg
run omnigraph schema plan --schema people.pg
run omnigraph schema apply --schema people.pg --as ann
run omnigraph export --type Person
run omnigraph query --snapshot review -e 'query q() { match { $p: Person } return { $p } }'

say "Records that break a rule are reported with file and line, and nothing is loaded."
cat > broken.jsonl <<'JSONL'
{"type": "Person", "data": {"name": "Cy", "age": "old"}}
{"type": "Person", "data": {"nmae": "Dee"}}
JSONL
run omnigraph load --data broken.jsonl --mode merge || echo "exit code $?"
echo '{"edge": "Knows", "from": "Ann", "to": "Nobody"}' > edge.jsonl
run omnigraph load --data edge.jsonl --mode merge || echo "exit code $?"

say "Kill a load between committing its tables and publishing (kill -9, at a failpoint)."
echo '{"type": "Person", "data": {"name": "Cy"}}' > cy.jsonl
printf '$ omnigraph load --data cy.jsonl --mode append --as cron\n'
OMNIGRAPH_FAILPOINTS=write.after_b=kill bash -c \
  'omnigraph load --data cy.jsonl --mode append --as cron; exit $?' 2>/dev/null || echo "exit code $?: killed"
run omnigraph status

say "The next writing command finishes it, and the history says who did."
run omnigraph recovery run
run omnigraph commit list --filter actor=omnigraph:recovery
run omnigraph recovery list

say "For a crontab: join small fragments, build indexes, remove what nothing needs. Answers stay the same."
run omnigraph maintain --keep 10
run omnigraph doctor

say "Time travel: every commit can still be read."
run omnigraph export --snapshot main~1 --type Person
run omnigraph snapshot --snapshot review~1 --json

if command -v java > /dev/null || [ -n "${JAVA_HOME:-}" ]; then
  say "Load with Spark: executors read and write, and one publish makes it visible. Here it runs locally."
  for number in $(seq 1 2000); do
    printf '{"type": "Person", "data": {"name": "P%s"}}\n{"edge": "Knows", "from": "P%s", "to": "Ann"}\n' \
      "$number" "$number"
  done > many.jsonl
  run omnigraph load --data many.jsonl --mode append --spark --master 'local[2]'
fi

say "An error is one clear message that says where it is, and nothing is changed."
printf 'node Person {\n  name: String @key\n  age: I32,\n}\n' > broken.pg
run omnigraph init --schema broken.pg other.omni || echo "exit code $?"

say "Done. The graph was in a temporary directory and has been removed."
