"""Loading with Spark: executors read the input and write fragments, the door publishes them.

The only importer of pyspark. The modules that run in executors (`reading`, `parse`,
`task`) need pylance, pyarrow, numpy and obstore, and no command line.
"""
