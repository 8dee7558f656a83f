#!/usr/bin/env bash
# The tour of `make demo`: a company's graph of some thousand nodes in a fresh directory, from the first load to
# a cleanup, with a crash in between.
# usage: docs/tour.sh DIRECTORY_OF_THE_OMNIGRAPH_COMMAND
set -euo pipefail
export PATH="$1:$PATH"
unset OMNIGRAPH_STORE OMNIGRAPH_BRANCH OMNIGRAPH_ACTOR
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
export OMNIGRAPH_ACTOR=ann

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
# A command as it would be typed: words that a shell would take apart are in quotes.
run() {
  printf '\033[32m$\033[0m'
  for word; do
    case $word in *[!A-Za-z0-9_.,:=/@%+~-]* | '') word="'${word//\'/\'\\\'\'}'" ;; esac
    printf ' %s' "$word"
  done
  printf '\n'
  "$@"
}
fails() { run "$@" || echo "exit code $?"; }

# The same graph every time: 3,000 people, 120 projects, 40 skills, and who knows and does what.
python - <<'PYTHON'
import json
import random

draw = random.Random(7)
first = "Ada Ben Cleo Dan Eve Finn Gus Hana Ivo Jane Kim Leo Mia Noa Omar Pia Quin Rosa Sam Tess".split()
people = [f"{first[i % 20]}-{i:04}" for i in range(3000)]
projects = [f"project-{i:03}" for i in range(120)]
skills = [f"skill-{i:02}" for i in range(40)]
with open("company.jsonl", "w") as out:
    def put(**record):
        out.write(json.dumps(record) + "\n")
    for i, name in enumerate(people):
        put(type="Person", data={"name": name, "age": 20 + i * 7 % 45, "team": f"team-{i % 60:02}"})
    for i, name in enumerate(projects):
        put(type="Project", data={"name": name, "budget": 1000 * draw.randrange(10, 500)})
    for name in skills:
        put(type="Skill", data={"name": name})
    for name in people:
        for other in draw.sample(people, 4):
            put(edge="Knows", **{"from": name, "to": other})
        put(edge="WorksOn", **{"from": name, "to": draw.choice(projects)}, data={"hours": draw.randrange(5, 40)})
        put(edge="Has", **{"from": name, "to": draw.choice(skills)})
PYTHON

say "A schema declares the node and edge types."
cat > company.pg <<'PG'
node Person {
  name: String @key
  age: I32?
  team: String? @index
}
node Project { name: String @key  budget: I64 }
node Skill { name: String @key }
edge Knows: Person -> Person
edge WorksOn: Person -> Project { hours: I32  @unique(src, dst) }
edge Has: Person -> Skill
PG
run cat company.pg
run omnigraph init --schema company.pg --message "first day"

say "Load 3,160 nodes and 18,000 edges, in any order: checked as a whole, and one commit."
run head -1 company.jsonl
run omnigraph load --data company.jsonl --mode append --message "from the HR system"
run omnigraph status

say "Query it: patterns, hops, grouping, negation."
cat > reads.gq <<'GQ'
query expensive() {
  match { $p: Person  $p worksOn $x  $x.budget > 480000 }
  return { $x.name as project, count($p) as people, avg($p.age) as age }
  order { people desc }
  limit 5
}
query lonely($skill: String) {
  match {
    $s: Skill { name: $skill }
    $p: Person
    $p has $s
    not { $p knows $q  $q has $s }
  }
  return { $p.name as name, $p.team as team }
  order { name }
  limit 3
}
query reach($who: String) {
  match { $p: Person { name: $who }  $p knows{1,3} $q }
  return { count($q) as people }
}
GQ
run omnigraph query expensive --query reads.gq --format table
run omnigraph query lonely --query reads.gq --param skill=skill-07 --format table
run omnigraph query reach --query reads.gq --param who=Ada-0000 --format table

say "Create a branch and reorganise there: main does not move."
run omnigraph branch create reorg
cat > changes.gq <<'GQ'
query move($from: String, $to: String) { update Person set { team: $to } where team = $from }
query cut($project: String) { delete Project where name = $project }
query rename($who: String, $team: String) { update Person set { team: $team } where name = $who }
GQ
run omnigraph change move --query changes.gq --param from=team-07 --param to=team-08 --branch reorg --message "teams 7 and 8"
run omnigraph change cut --query changes.gq --param project=project-013 --branch reorg --as bob --message "no budget"
run omnigraph diff main reorg --stat

say "Meanwhile somebody else changes the same on main. The merge says what clashes, and changes nothing."
run omnigraph change rename --query changes.gq --param who=Hana-0007 --param team=board --as eve
fails omnigraph branch merge reorg
run omnigraph branch merge reorg --strategy theirs --message "reorganisation, as agreed"
run omnigraph commit list --graph
run omnigraph blame Person/Hana-0007

say "Take it back; take that back."
run omnigraph undo
run omnigraph undo

say "Kill a load between committing its tables and publishing (kill -9, at a failpoint)."
echo '{"type": "Person", "data": {"name": "Zoe-9999", "age": 33, "team": "team-01"}}' > zoe.jsonl
printf '$ omnigraph load --data zoe.jsonl --mode merge --as cron\n'
OMNIGRAPH_FAILPOINTS=write.after_b=kill bash -c \
  'omnigraph load --data zoe.jsonl --mode merge --as cron; exit $?' 2>/dev/null || echo "exit code $?: killed"
ZOE='query zoe() { match { $p: Person { name: "Zoe-9999" } } return { $p.name, $p.team } }'
run omnigraph query -e "$ZOE" --format table
run omnigraph doctor || true

say "The next writing command finishes it, or you do; the history says who did."
run omnigraph recovery run
run omnigraph query -e "$ZOE" --format table
run omnigraph commit list --limit 2

say "Records that break a rule are reported with file and line, and nothing is loaded."
cat > broken.jsonl <<'JSONL'
{"type": "Person", "data": {"name": "Yan", "age": "old"}}
{"type": "Person", "data": {"nmae": "Xia"}}
{"edge": "Knows", "from": "Yan", "to": "Nobody"}
JSONL
fails omnigraph load --data broken.jsonl --mode merge

say "Change the schema: the plan says what it costs and what the data has against it."
sed -i 's/age: I32?/age: I64?\n  remote: Bool @default(false)/' company.pg
run omnigraph schema plan --schema company.pg
run omnigraph schema apply --schema company.pg
run omnigraph query -e 'query q() { match { $p: Person } return { $p.remote as remote, count($p) as people } }' --format table

say "Every commit can still be read, with the schema it had."
run omnigraph query reach --query reads.gq --param who=Ada-0000 --snapshot main~3 --format table

say "For a crontab: join small fragments, build indexes, remove what nothing needs. Answers stay the same."
run omnigraph maintain --keep 3 --grace 0s
run omnigraph doctor

say "Done. The graph was in a temporary directory and has been removed. What to try next:"
cat <<'NEXT'
  pipx install .                     put omnigraph on your PATH
  docs/python.md                     the same from Python: og.open(path).query(…).to_pandas()
  omnigraph query … --format html    what a query matched, as a picture
  docs/recovery.md                   kill it at other moments
  docs/spark.md, docs/s3.md          larger inputs, other places
  omnigraph --help                   everything else
NEXT
