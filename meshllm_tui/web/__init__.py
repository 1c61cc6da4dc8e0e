"""The dashboard in a browser: textual-serve's parts behind a token, on loopback."""
