"""What a training script tells the GPU scheduler, and what it hears from it.

Scripts written for ``kubernetesdlprofile`` run unchanged::

    from kubernetesdlprofile import kubeprofiler

    prof = kubeprofiler.KubeProfiler()
    for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
        prof.start_epoch()
        for batch in batches:
            train(batch)
            prof.measure()
        prof.end_epoch()
        save(prof.root_dir)

Standard library only.  Nothing to install: the scheduler puts this package on ``PYTHONPATH``.
"""

__version__ = "0.1.0"
