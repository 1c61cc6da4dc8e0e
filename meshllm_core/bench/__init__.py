"""Measures any OpenAI-compatible server from outside: knows nothing of the node it may be aimed at."""
