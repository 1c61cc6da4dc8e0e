"""Key/values of a small model of each architecture: enough of them for llama.cpp to build it."""

Value = bool | int | float | str | list[int] | list[float]

VOCABULARY = 64


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MLA = _words("deepseek2 deepseek32 glm-dsa mistral4 kimi-linear bailingmoe3 hy_v4")
_MIXED = _words("plamo2 jamba granitehybrid lfm2 lfm2moe kimi-linear bailingmoe3")
_MOE = _words("""
    llama4 cohere2moe grok qwen2moe qwen3moe qwen3next qwen3vlmoe qwen35moe phimoe dbrx olmoe arctic deepseek
    deepseek2 deepseek32 deepseek4 glm4moe glm-dsa exaone-moe bailingmoe bailingmoe2 bailingmoe3 dots1 afmoe
    ernie4_5-moe hunyuan-moe hy_v3 hy_v4 gpt-oss lfm2moe smallthinker grovemoe minimax-01 minimax-m2
    minimax-m3 mimo2 kimi-linear step35 mistral4 mellum laguna maple granitemoe nemotron_h_moe
""")
_PATTERN = _words("cohere2moe mimo2 step35 spark2_5 muse-glimmer granite_swa maple gemma4")
_SECTIONS = _words("qwen2vl qwen3vl qwen3vlmoe qwen35 qwen35moe")

VARIANTS: dict[str, tuple[str, ...]] = {
    "llama": ("moe", "tied"),
    "deepseek4": ("hash",),
    "deepseek2": ("lite",),
    "ernie4_5-moe": ("step2",),
    "gemma4": ("ple", "ple-shared"),
    "glm4": ("sections",),
    "glm4moe": ("sections", "nextn"),
    "qwen2": ("tied",),
    "granite": ("moe",),
    "exaone4": ("64",),
    "gemma3": ("62",),
    "baichuan": ("32",),
    "gemma2": ("46",),
}
"""Further shapes of an architecture, beside the plain one."""

_LAYERS = {"gemma3n": 22, "gemma3": 12, "glm-dsa": 6, "hy_v4": 6, "minimax-m3": 6}
_VARIANT_LAYERS = {"lite": 27, "64": 64, "62": 62, "32": 32, "46": 46}


def layer_count(architecture: str, variant: str = "") -> int:
    """Layers of the trunk."""
    return _VARIANT_LAYERS.get(variant, _LAYERS.get(architecture, 8))


def model_keys(architecture: str, variant: str = "") -> dict[str, Value]:
    """Key/values under their full names."""
    layers = layer_count(architecture, variant)
    width, heads, feed_forward = 64, 4, 96
    if architecture in _MLA or architecture in ("deepseek4", "minimax-m3"):
        width, heads, feed_forward = 128, 2, 96
    if architecture in ("qwen35", "qwen35moe", "qwen3next", "nemotron_h", "nemotron_h_moe"):
        width, heads, feed_forward = 128, 4, 96
    if architecture == "deepseek4":
        width, heads = 256, 4
    keys = _base(architecture, layers, width, heads, feed_forward)
    keys |= _attention(architecture, layers, width, heads)
    keys |= _recurrent(architecture, width, heads)
    if architecture in _MOE or variant == "moe":
        keys |= _experts(architecture, feed_forward)
    keys |= _special(architecture, layers, width, heads, feed_forward)
    keys |= _varied(architecture, variant, layers, width)
    return {
        key.removeprefix("/") if key.startswith("/") else f"{architecture}.{key}": value
        for key, value in keys.items()
    }


def _base(architecture: str, layers: int, width: int, heads: int, feed_forward: int) -> dict[str, Value]:
    return {
        "vocab_size": VOCABULARY,
        "context_length": 256,
        "embedding_length": width,
        "block_count": layers,
        "leading_dense_block_count": 1,
        "feed_forward_length": feed_forward,
        "use_parallel_residual": False,
        "logit_scale": 1.0,
        "time_mix_extra_dim": 16,
        "time_decay_extra_dim": 16,
        "full_attention_interval": 4,
        "attention.head_count": heads,
        "attention.head_count_kv": heads,
        "attention.layer_norm_epsilon": 1e-5,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.group_norm_epsilon": 1e-5,
        "attention.group_norm_groups": 4,
        "attention.max_alibi_bias": 8.0,
        "attention.clamp_kqv": 1.0,
        "attention.sliding_window": 16,
        "attention.q_lora_rank": 32,
        "attention.kv_lora_rank": 32,
        "/xielu.alpha_n": 1.0,
        "/xielu.alpha_p": 1.0,
        "/xielu.beta": 1.0,
        "/xielu.eps": 1e-7,
        "residual_scale": 0.8,
        "activation.situ_beta": 4.0,
        "activation.situ_linear_beta": 25.0,
    }


def _attention(architecture: str, layers: int, width: int, heads: int) -> dict[str, Value]:
    keys: dict[str, Value] = {}
    head = width // heads
    if architecture in _MLA:
        keys |= {
            "attention.head_count_kv": 1,
            "attention.key_length": 48,
            "attention.value_length": 32,
            "rope.dimension_count": 16,
            "attention.key_length_mla": 32,
            "attention.value_length_mla": 16,
        }
    if architecture in _PATTERN:
        keys["attention.sliding_window_pattern"] = [int(layer % 3 != 2) for layer in range(layers)]
    if architecture in _SECTIONS:
        keys["rope.dimension_sections"] = [head // 4, head // 8, head // 8, 0]
    keys |= {
        "attention.indexer.head_count": heads,
        "attention.indexer.key_length": 64,
        "attention.indexer.top_k": 1024,
        "attention.indexer.block_size": 4,
        "attention.indexer.local_blocks": 1,
    }
    return keys


def _recurrent(architecture: str, width: int, heads: int) -> dict[str, Value]:
    gated = architecture in ("qwen3next", "qwen35", "qwen35moe")
    return {
        "ssm.inner_size": 128 if gated else 2 * width,
        "ssm.conv_kernel": 4,
        "ssm.state_size": 32 if gated else 16,
        "ssm.time_step_rank": heads,
        "ssm.group_count": 0 if architecture == "plamo2" else 2,
        "kda.head_dim": 32,
        "kda.safe_gate": True,
        "kda.gate_lower_bound": -5.0,
        "wkv.head_size": width // heads,
        "shortconv.l_cache": 3,
    }


def _experts(architecture: str, feed_forward: int) -> dict[str, Value]:
    return {
        "expert_feed_forward_length": feed_forward,
        "expert_shared_feed_forward_length": feed_forward // 2,
        "expert_latent_size": feed_forward,
        "moe_latent_size": feed_forward,
        "interleave_moe_layer_step": 2 if architecture == "llama4" else 1,
        "expert_count": 2,
        "expert_used_count": 2,
        "expert_shared_count": 1,
        "expert_gating_func": 4 if architecture == "deepseek4" else 2,
        "expert_group_scale": 1.0,
        "experts_per_group": 1,
        "expert_chunk_feed_forward_length": feed_forward,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": True,
    }


def _special(architecture: str, layers: int, width: int, heads: int, feed_forward: int) -> dict[str, Value]:
    mixed: list[int] = [heads if layer % 3 == 1 else 0 for layer in range(layers)]
    if architecture in _MIXED:
        keys: dict[str, Value] = {"attention.head_count": heads, "attention.head_count_kv": mixed}
        if architecture in _MLA:
            keys["attention.head_count_kv"] = [min(1, count) for count in mixed]
        return keys | ({"rope.dimension_sections": [2, 3, 3, 0]} if architecture == "bailingmoe3" else {})
    match architecture:
        case "nemotron_h" | "nemotron_h_moe":
            # Mamba, feed-forward and attention blocks in turn.
            return {
                "feed_forward_length": [feed_forward if layer % 3 == 1 else 0 for layer in range(layers)],
                "attention.head_count_kv": [heads if layer % 3 == 2 else 0 for layer in range(layers)],
            }
        case "granite" | "granitemoe" | "granite_swa" | "minicpm":
            return {"embedding_scale": 3.0, "attention.scale": 0.2}
        case "gemma3n":
            return {"attention.head_count_kv": 2}
        case "gemma4":
            return {
                "embedding_length_per_layer_input": 0,
                "attention.shared_kv_layers": 0,
                "attention.key_length_swa": width // heads,
                "attention.value_length_swa": width // heads,
                "rope.freq_base_swa": 10000.0,
            }
        case "deepseek4":
            return {
                "attention.head_count_kv": 1,
                "attention.key_length": width // heads,
                "attention.value_length": width // heads,
                "rope.dimension_count": width // heads // 2,
                "attention.output_group_count": heads,
                "attention.output_lora_rank": 32,
                "attention.compress_ratios": [(0, 0, 4, 128)[layer % 4] for layer in range(layers)],
                "attention.compress_rope_freq_base": 160000.0,
                "hyper_connection.count": 4,
                "hyper_connection.sinkhorn_iterations": 2,
                "hyper_connection.epsilon": 1e-6,
                "hash_layer_count": 0,
                "swiglu_clamp_exp": 10.0,
            }
        case "hy_v4":
            return {
                "hyper_connection.count": 4,
                "hyper_connection.epsilon": 1e-6,
                "hyper_connection.magnitude": 2.0,
                "swiglu_clamp_exp": 10.0,
                "attention.indexer.types": [1 - layer % 2 for layer in range(layers)],
            }
        case "glm-dsa":
            return {"attention.indexer.types": [1, 1, 0, 1, 0, 1]}
        case "minimax-m3":
            return {"rope.dimension_count": 32, "leading_dense_block_count": 2}
        case "maple":
            return {"swiglu_clamp_exp": 7.0}
        case "rwkv6":
            return {"rescale_every_n_layers": 3}
    return {}


def _varied(architecture: str, variant: str, layers: int, width: int) -> dict[str, Value]:
    match variant:
        case "hash":
            return {"hash_layer_count": 2}
        case "step2":
            return {"interleave_moe_layer_step": 2}
        case "ple":
            return {"embedding_length_per_layer_input": 16}
        case "ple-shared":
            pattern = [int(layer % 4 != 3) for layer in range(layers)]
            return {
                "embedding_length_per_layer_input": 16,
                "attention.shared_kv_layers": 4,
                "attention.sliding_window_pattern": pattern,
            }
        case "sections":
            return {"rope.dimension_sections": [width // 16, width // 32, width // 32, 0]}
        case "nextn":
            return {"block_count": layers + 1, "nextn_predict_layers": 1}
    return {}
