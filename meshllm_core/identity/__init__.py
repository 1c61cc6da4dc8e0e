"""Who a node is: its key, where that is kept, and what it signs."""
