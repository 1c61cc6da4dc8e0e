"""HTTP: the OpenAI endpoint, the management API, and the typed client of the latter."""
