"""Random models of some hundred kilobytes whose memory is not plain attention: recurrent, sliding window.

The vocabulary is bytes, so any text can be a prompt and any token shows.
"""

from pathlib import Path

import gguf
import numpy as np

WIDTH = 64
CONTEXT = 2048
WINDOW = 32
_LAYERS = 3
_SPECIAL = ("<unk>", "<s>", "</s>")


class _Writer(gguf.GGUFWriter):  # type: ignore[misc]
    """A GGUF with a byte vocabulary and seeded random tensors."""

    def __init__(self, path: Path, architecture: str) -> None:
        super().__init__(path, architecture)
        self._random = np.random.default_rng(7)
        self.add_context_length(CONTEXT)
        self.add_embedding_length(WIDTH)
        self.add_block_count(_LAYERS)
        self.add_layer_norm_rms_eps(1e-6)
        tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
        self.add_tokenizer_model("llama")
        self.add_token_list(tokens)
        self.add_token_scores([0.0] * len(tokens))
        self.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.BYTE] * 256)
        self.add_bos_token_id(1)
        self.add_eos_token_id(2)
        self.add_add_bos_token(False)
        self.add_add_space_prefix(False)
        self.random("token_embd.weight", len(tokens), WIDTH)
        self.ones("output_norm.weight", WIDTH)

    def random(self, name: str, *shape: int, scale: float = 0.4) -> None:
        """A normal tensor; the shape is numpy's, last index fastest."""
        self.add_tensor(name, self._random.normal(0, scale, shape).astype(np.float32))

    def ones(self, name: str, *shape: int, value: float = 1.0) -> None:
        """A constant tensor."""
        self.add_tensor(name, np.full(shape, value, dtype=np.float32))

    def finish(self) -> None:
        """Write it out."""
        self.write_header_to_file()
        self.write_kv_data_to_file()
        self.write_tensors_to_file()
        self.close()


def write_tiny_mamba(path: Path) -> Path:
    """Recurrent: a state per sequence, no way back to an earlier position."""
    inner, state, rank, kernel = 2 * WIDTH, 8, 4, 4
    writer = _Writer(path, "mamba")
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    for layer in range(_LAYERS):
        prefix = f"blk.{layer}."
        writer.ones(f"{prefix}attn_norm.weight", WIDTH)
        writer.random(f"{prefix}ssm_in.weight", 2 * inner, WIDTH)
        writer.random(f"{prefix}ssm_conv1d.weight", inner, kernel)
        writer.random(f"{prefix}ssm_conv1d.bias", inner)
        writer.random(f"{prefix}ssm_x.weight", rank + 2 * state, inner)
        writer.random(f"{prefix}ssm_dt.weight", inner, rank)
        writer.random(f"{prefix}ssm_dt.bias", inner)
        writer.ones(f"{prefix}ssm_a", inner, state, value=-1.0)
        writer.ones(f"{prefix}ssm_d", inner)
        writer.random(f"{prefix}ssm_out.weight", WIDTH, inner)
    writer.finish()
    return path


def write_tiny_window(path: Path) -> Path:
    """Gemma 3's shape: most layers see only the last WINDOW positions and forget the rest."""
    heads, head, feed_forward = 2, 32, 128
    writer = _Writer(path, "gemma3")
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(heads)
    writer.add_head_count_kv(1)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_sliding_window(WINDOW)
    for layer in range(_LAYERS):
        prefix = f"blk.{layer}."
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            writer.ones(f"{prefix}{name}.weight", WIDTH)
        for name in ("attn_q_norm", "attn_k_norm"):
            writer.ones(f"{prefix}{name}.weight", head)
        writer.random(f"{prefix}attn_q.weight", heads * head, WIDTH)
        writer.random(f"{prefix}attn_k.weight", head, WIDTH)
        writer.random(f"{prefix}attn_v.weight", head, WIDTH)
        writer.random(f"{prefix}attn_output.weight", WIDTH, heads * head)
        writer.random(f"{prefix}ffn_gate.weight", feed_forward, WIDTH)
        writer.random(f"{prefix}ffn_up.weight", feed_forward, WIDTH)
        writer.random(f"{prefix}ffn_down.weight", WIDTH, feed_forward)
    writer.finish()
    return path
