"""The node process: start-up order, the event store, actions."""
