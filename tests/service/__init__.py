"""The service layer: worker, scheduler, node, isolation, logs and metrics."""
