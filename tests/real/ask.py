"""One `openai` client that asks every model of an endpoint: `python -m tests.real.ask URL`."""

import sys
import time

import openai

from tests.real.namespaces import tell


def main(url: str) -> None:
    """A line per model: who holds it, who served it, how long the first token took."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
    for model in client.models.list():
        holders = ", ".join(node["name"] for node in (model.model_extra or {})["meshllm"]["nodes"])
        tell(f"{model.id}: held by {holders}")
        began = time.monotonic()
        raw = client.completions.with_raw_response.create(
            model=model.id, prompt="One, two, three,", max_tokens=8, temperature=0, stream=True
        )
        text, first = "", 0.0
        for chunk in raw.parse():
            first = first or time.monotonic() - began
            text += chunk.choices[0].text if chunk.choices else ""
        served = raw.headers.get("x-meshllm-served-by", "?")
        tell(f"    served by {served}: {text[:40]!r}, first token after {first * 1000:.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1])
