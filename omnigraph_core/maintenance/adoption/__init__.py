"""`adopt`: a graph of the Rust original becomes ours, with its history and branches.

| module | |
|---|---|
| `found` | what is said before and afterwards |
| `looking` | what the graph is like, and whether it may be adopted; writes nothing |
| `datasets` | one dataset becomes ours: drift, empty blobs, settings, indexes |
| `past` | the schemas of the original's commits, and which of these can be read no more |
| `record` | the sidecar that keeps the original out meanwhile |
| `run` | the order of it all |
"""
