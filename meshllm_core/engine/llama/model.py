"""A loaded model and its vocabulary."""

import ctypes
from array import array
from collections.abc import Callable, Sequence
from functools import cached_property

from meshllm_core.engine.llama.library import api, device_handles, version
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.types import ModelFacts
from meshllm_core.errors import ModelFileInvalid

_POOLINGS = ("1", "2", "3")
"""Mean, CLS, last token. 0 is none; 4 ranks pairs of texts, which has no endpoint here."""
_META_LIMIT = 1 << 20


class Model:
    """llama_model with the parts of its vocabulary that serving needs. Thread-safe for reading."""

    def __init__(self, spec: LoadSpec, on_progress: Callable[[float], None]) -> None:
        """Load. Raises ModelFileInvalid when llama.cpp refuses the file (its reason is in the log)."""
        self.spec = spec
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0 if spec.device == "cpu" else spec.gpu_layers
        params.load_mode = _load_mode(spec)

        @api.llama_progress_callback  # type: ignore[untyped-decorator]
        def callback(fraction: float, _data: object) -> bool:
            on_progress(fraction)
            return True

        params.progress_callback = callback
        self._devices = _device_array(spec.device)
        if self._devices is not None:
            params.devices = ctypes.cast(self._devices, ctypes.c_void_p)
        names = [name.encode() for name in spec.files]
        paths = (ctypes.c_char_p * len(names))(*names)
        self.handle = (
            api.llama_model_load_from_file(names[0], params)
            if len(names) == 1
            else api.llama_model_load_from_splits(paths, len(names), params)
        )
        if not self.handle:
            raise ModelFileInvalid(f"llama.cpp cannot load {spec.files[0]}.")
        self.vocab = api.llama_model_get_vocab(self.handle)
        self.n_vocab: int = api.llama_vocab_n_tokens(self.vocab)
        self.width: int = api.llama_model_n_embd_out(self.handle)
        self.window: int = api.llama_model_n_swa(self.handle)
        self.recurrent = bool(
            api.llama_model_is_recurrent(self.handle) or api.llama_model_is_hybrid(self.handle)
        )
        if api.llama_model_has_encoder(self.handle):
            raise ModelFileInvalid(
                f"{spec.files[0]} is an encoder-decoder model, which is not served here.",
                hint="Choose a decoder-only model.",
            )

    @cached_property
    def _special(self) -> dict[str, int]:
        """Text -> id of control tokens. Made on first use: a vocabulary of 262,144 takes a while."""
        return {
            api.llama_vocab_get_text(self.vocab, token).decode(errors="replace"): token
            for token in range(self.n_vocab)
            if api.llama_vocab_is_control(self.vocab, token)
        }

    def control_token_ids(self, texts: Sequence[str]) -> frozenset[int]:
        """Ids of those texts that are control tokens of this vocabulary."""
        return frozenset(self._special[text] for text in texts if text in self._special)

    def meta(self, key: str) -> str:
        """A metadata value as text; empty when absent."""
        size = 4096
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = api.llama_model_meta_val_str(self.handle, key.encode(), buffer, size)
            if length < 0:
                return ""
            if length < size:
                return buffer.value.decode(errors="replace")
            if length > _META_LIMIT:
                raise ModelFileInvalid(f"Metadata {key} of {self.spec.files[0]} is {length} bytes long.")
            size = length + 1

    @property
    def last_position(self) -> int | None:
        """The longest text where a longer one may abort the process: it has no place in a table of positions.

        llama.cpp counts BERT, which has such a table, among the rotary ones.
        """
        rotary = api.llama_model_rope_type(self.handle) != api.LLAMA_ROPE_TYPE_NONE and not self.embeds
        return None if rotary or self.recurrent else int(api.llama_model_n_ctx_train(self.handle))

    @cached_property
    def embeds(self) -> bool:
        """Whether the file names a pooling: such a model gives embeddings and does not generate."""
        architecture = self.meta("general.architecture")
        return self.meta(f"{architecture}.pooling_type") in _POOLINGS

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> "array[int]":
        """Token ids of a text (array of C int)."""
        data = text.encode()
        capacity = len(data) + 8
        while True:
            buffer = (ctypes.c_int32 * capacity)()
            count = api.llama_tokenize(
                self.vocab, data, len(data), buffer, capacity, add_special, parse_special
            )
            if count >= 0:
                return array("i", memoryview(buffer)[:count].tobytes())
            capacity = -count

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes a token stands for; control tokens are empty unless `special`."""
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = api.llama_token_to_piece(self.vocab, token, buffer, size, 0, special)
            if length >= 0:
                return buffer.raw[:length]
            size = -length

    def is_end(self, token: int) -> bool:
        """Whether the token ends a generation (end of text, of turn, of message)."""
        return bool(api.llama_vocab_is_eog(self.vocab, token))

    def facts(self, *, context: int, embeddings: bool) -> ModelFacts:
        """What the model says of itself."""
        bos, eos = api.llama_vocab_bos(self.vocab), api.llama_vocab_eos(self.vocab)
        return ModelFacts(
            architecture=self.meta("general.architecture"),
            name=self.meta("general.name"),
            parameters=api.llama_model_n_params(self.handle),
            vocabulary=self.n_vocab,
            width=self.width,
            layers=api.llama_model_n_layer(self.handle),
            context_trained=api.llama_model_n_ctx_train(self.handle),
            context=context,
            lanes=self.spec.lanes,
            chat_template=self.meta("tokenizer.chat_template"),
            bos_text=self.piece(bos, special=True).decode(errors="replace") if bos >= 0 else "",
            eos_text=self.piece(eos, special=True).decode(errors="replace") if eos >= 0 else "",
            adds_bos=bool(api.llama_vocab_get_add_bos(self.vocab)),
            embeddings=embeddings,
            generates=not embeddings,
            device=self.spec.device,
            llama_cpp=version(),
        )

    def close(self) -> None:
        """Free the weights."""
        api.llama_model_free(self.handle)


def _load_mode(spec: LoadSpec) -> int:
    table = {
        (True, True): api.LLAMA_LOAD_MODE_MMAP_MLOCK,
        (True, False): api.LLAMA_LOAD_MODE_MMAP,
        (False, True): api.LLAMA_LOAD_MODE_MLOCK,
        (False, False): api.LLAMA_LOAD_MODE_NONE,
    }
    return int(table[spec.mmap, spec.mlock])


def _device_array(name: str) -> "ctypes.Array[ctypes.c_void_p] | None":
    """A null-terminated device list for llama.cpp; None lets it use all, an empty one only the CPU."""
    if name == "auto":
        return None
    if name.lower() == "cpu":
        return (ctypes.c_void_p * 1)(None)
    handles = {device.name.lower(): handle for device, handle in device_handles()}
    if name.lower() not in handles:
        known = ", ".join(sorted(handles))
        raise ModelFileInvalid(f"There is no device named {name}.", hint=f"llama.cpp sees: {known}.")
    return (ctypes.c_void_p * 2)(handles[name.lower()], None)
