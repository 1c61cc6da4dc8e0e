"""Measurements that need real programs: run as `python -m benchmarks.side_by_side` from the checkout."""
