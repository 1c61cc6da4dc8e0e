"""A random BERT of a few kilobytes: an embedding model, for what only such models do."""

from pathlib import Path

import gguf
import numpy as np

WIDTH = 32
CONTEXT = 64
_LAYERS, _HEADS, _FEED_FORWARD = 2, 2, 64
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_WORDS = [*_SPECIAL, "▁the", "▁a", "▁cat", "▁dog", "▁sat", "▁ran", "▁on"]


def write_tiny_bert(path: Path) -> Path:
    """Writes it and returns the path. The weights are the same each time."""
    random = np.random.default_rng(1)

    def tensor(*shape: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        return random.normal(0, 0.3, shape).astype(np.float32)

    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("tiny bert")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(_HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(_WORDS)
    writer.add_token_types([gguf.TokenType.CONTROL] * 5 + [gguf.TokenType.NORMAL] * (len(_WORDS) - 5))
    writer.add_token_type_count(2)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_mask_token_id(4)
    writer.add_tensor("token_embd.weight", tensor(len(_WORDS), WIDTH))
    writer.add_tensor("token_types.weight", tensor(2, WIDTH))
    writer.add_tensor("position_embd.weight", tensor(CONTEXT, WIDTH))
    _norm(writer, "token_embd_norm")
    for layer in range(_LAYERS):
        prefix = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{prefix}{name}.weight", tensor(WIDTH, WIDTH))
            writer.add_tensor(f"{prefix}{name}.bias", tensor(WIDTH))
        writer.add_tensor(f"{prefix}ffn_up.weight", tensor(_FEED_FORWARD, WIDTH))
        writer.add_tensor(f"{prefix}ffn_up.bias", tensor(_FEED_FORWARD))
        writer.add_tensor(f"{prefix}ffn_down.weight", tensor(WIDTH, _FEED_FORWARD))
        writer.add_tensor(f"{prefix}ffn_down.bias", tensor(WIDTH))
        _norm(writer, f"{prefix}attn_output_norm")
        _norm(writer, f"{prefix}layer_output_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _norm(writer: gguf.GGUFWriter, name: str) -> None:
    writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.add_tensor(f"{name}.bias", np.zeros(WIDTH, dtype=np.float32))
