"""The dashboard's pages, one module each."""
