"""Who belongs to a mesh and who is alive. Pure: time, entropy and bytes are arguments."""
