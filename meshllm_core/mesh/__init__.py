"""The mesh as it runs on a node: links, admission, gossip, discovery, joined to one whole."""
