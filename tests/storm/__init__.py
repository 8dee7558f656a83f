"""A storm: every verb by many processes on one graph, while everything that can go wrong does.

`python -m tests.storm --minutes M --seed S [--s3]`. A storm is a row of spells, each on a graph of its
own. In a spell, workers run random programs of commands, and a nemesis kills, pauses and fails them.
Then recovery runs, and the graph is held against what the commands were told: `verdict.py`.

`--replay` runs the programs one command after the other, with faults at failpoints alone. Then the same
seed is the same run, and a failure is shrunk to the few commands that it takes.
"""
