"""LightTuner's names for ditk.hpo and ditk.scheduler.  Where the real LightTuner is installed it is meant instead."""

from berth._aside import step_aside

__version__ = "0.0.1"

step_aside(__name__)
