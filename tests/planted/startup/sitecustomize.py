"""Imported by every Python that `test_planted.py` starts, directly or not, before anything else."""

from tests.planted.bugs import plant_from_environment

plant_from_environment()
