"""Shows with network namespaces, tmux and several nodes. Run by hand as root; not part of the gate."""
