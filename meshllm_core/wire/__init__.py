"""What crosses a link: frames, messages and limits. Pure: bytes to typed messages and back."""
