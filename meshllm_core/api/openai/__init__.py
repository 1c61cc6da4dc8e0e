"""The OpenAI-compatible endpoint: bytes of a request to a `GenerationRequest`, chunks back to bytes.

A request travels body → schema → translate → service → collect or stream.
"""
