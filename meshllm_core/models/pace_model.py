"""A model of random weights on which a machine measures how fast it computes: wide, with few layers.

Wide, so that reading the weights takes the time and not the steps between them; together larger than what
most processors keep in their caches. What it says means nothing.
"""

from pathlib import Path

import gguf
import numpy as np

WIDTH = 2048
FEED_FORWARD = 5632
HEADS, KV_HEADS, HEAD = 16, 4, 128
LAYERS = 3
VOCABULARY = 64
CONTEXT = 1024
_BLOCK, _BLOCK_BYTES = 256, 144
"""Values and bytes of a block of Q4_K, of which most downloaded models are made."""
_SHAPES = {
    "attn_q": (HEADS * HEAD, WIDTH),
    "attn_k": (KV_HEADS * HEAD, WIDTH),
    "attn_v": (KV_HEADS * HEAD, WIDTH),
    "attn_output": (WIDTH, HEADS * HEAD),
    "ffn_gate": (FEED_FORWARD, WIDTH),
    "ffn_up": (FEED_FORWARD, WIDTH),
    "ffn_down": (WIDTH, FEED_FORWARD),
}
"""Rows and columns of a layer's matrices."""
WEIGHTS = LAYERS * sum(rows * columns for rows, columns in _SHAPES.values()) // _BLOCK * _BLOCK_BYTES
"""Bytes that one token reads: 73 MiB."""


def write_pace_model(path: Path) -> None:
    """Writes the GGUF. Raises OSError."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(HEAD)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(VOCABULARY)
    ones = np.ones(WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", np.full((VOCABULARY, WIDTH), 0.1, np.float32))
    writer.add_tensor("output_norm.weight", ones)
    # All matrices begin with the same bytes, which costs memory once here and makes no difference there.
    blocks = _blocks(FEED_FORWARD * WIDTH // _BLOCK)
    for layer in range(LAYERS):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", ones)
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", ones)
        for name, (rows, columns) in _SHAPES.items():
            matrix = blocks[: rows * columns // _BLOCK].reshape(rows, -1)
            writer.add_tensor(f"blk.{layer}.{name}.weight", matrix, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _blocks(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Random numbers of four bits, with two scales that keep what is computed from them in range."""
    blocks = np.random.default_rng(1).integers(0, 256, (count, _BLOCK_BYTES), dtype=np.uint8)
    blocks[:, :4] = np.frombuffer(np.array([0.001, 0.001], np.float16).tobytes(), np.uint8)
    return blocks
