"""DI-toolkit on Berth: search for hyper-parameters, and run every trial as a job.

    from ditk.hpo import hpo, R, uniform
    from ditk.scheduler import run_scheduler_local

Another package named ``ditk`` may be installed (the present DI-toolkit has other modules and neither of
these): its modules stay importable beside these.
"""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)
__version__ = "0.1.0"
