"""How machines find a mesh: invite token, QR code, mDNS record, Nostr listing. Pure."""
