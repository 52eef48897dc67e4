"""The names of ditk.scheduler."""

from ditk.scheduler import *  # noqa: F401,F403
