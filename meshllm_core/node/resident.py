"""Memory that a process holds."""

import psutil


def resident(pid: int) -> int:
    """Bytes resident; 0 when it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
