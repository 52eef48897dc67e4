"""The names of ditk.hpo."""

from ditk.hpo import *  # noqa: F401,F403
