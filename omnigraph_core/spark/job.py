"""The program that spark-submit runs: the driver of a load."""

from omnigraph_core.spark.driver import main

if __name__ == "__main__":
    main()
