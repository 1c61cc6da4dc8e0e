"""The request's own path, from a validated body to a stream of deltas."""
