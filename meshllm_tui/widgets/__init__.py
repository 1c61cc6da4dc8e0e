"""The dashboard's panes and their parts."""
