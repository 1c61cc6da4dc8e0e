"""The dashboard: a Textual client of the management API."""
