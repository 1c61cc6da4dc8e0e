"""How bytes travel between nodes: the `Link` seam and what implements it."""
