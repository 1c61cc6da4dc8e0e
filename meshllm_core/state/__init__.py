"""What everybody may look at: frozen events, a frozen snapshot, and the fold from one to the other. Pure."""
