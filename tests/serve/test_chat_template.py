"""Conversations become the prompts that each kind of model was trained on."""

from datetime import datetime
from typing import Any

import pytest
from gguf import GGUFReader

from meshllm_core.errors import InvalidRequest
from meshllm_core.serve.chat_template import RenderedPrompt, render_chat
from meshllm_core.serve.reasoning import ReasoningTags
from meshllm_core.serve.tools import Dialect, ToolSpec
from tests.serve import templates
from tests.support.default_model import require_default_model

NOW = datetime(2026, 11, 30, 12, 0)
WEATHER = ToolSpec(
    "get_weather",
    "The weather <now>.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "How warm is it in Zürich?"}
CALL = {
    "id": "call_0123456789abcdef01234567",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Zürich"}'},
}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": CALL["id"], "content": "12 °C"}


def render(template: str, *messages: dict[str, Any], **options: Any) -> RenderedPrompt:
    return render_chat(template, messages, now=NOW, bos_text="<s>", eos_text="</s>", **options)


def test_without_a_template_chatml_is_used() -> None:
    prompt = render("", SYSTEM, USER)
    assert prompt.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHow warm is it in Zürich?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert prompt.stops == ("<|im_end|>", "<|im_start|>")
    assert not prompt.adds_bos


@pytest.fixture(scope="module")
def smollm() -> str:
    """The template in the default model's file."""
    source = GGUFReader(require_default_model()).fields["tokenizer.chat_template"].contents()
    assert isinstance(source, str)
    return source


def test_default_model(smollm: str) -> None:
    prompt = render(smollm, USER)
    assert prompt.text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHow warm is it in Zürich?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (prompt.stops, prompt.adds_bos, prompt.reasoning) == ((), False, None)


def test_default_model_is_taught_about_tools(smollm: str) -> None:
    prompt = render(smollm, SYSTEM, USER, CALLING, RESULT, RESULT, tools=(WEATHER,))
    assert prompt.text.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert '"name": "get_weather", "description": "The weather <now>."' in prompt.text
    assert (
        '<|im_start|>assistant\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n'
        "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n12 °C\n</tool_response>\n"
        "<tool_response>\n12 °C\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    ) in prompt.text
    assert prompt.dialect is Dialect.HERMES
    assert prompt.visible_special == ("<tool_call>", "</tool_call>")


def test_qwen() -> None:
    prompt = render(templates.QWEN, SYSTEM, USER, CALLING, RESULT, tools=(WEATHER,))
    assert "<tools>\n" + '{"type": "function", "function": {"name": "get_weather"' in prompt.text
    assert (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>' in prompt.text
    )
    assert "<|im_start|>user\n<tool_response>\n12 °C\n</tool_response><|im_end|>" in prompt.text
    assert prompt.dialect is Dialect.HERMES
    assert prompt.reasoning == ReasoningTags("<think>", "</think>")
    assert not prompt.opened_reasoning
    assert prompt.visible_special == ("<tool_call>", "</tool_call>", "<think>", "</think>")


def test_thinking_can_be_switched_off() -> None:
    closed = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert render(templates.QWEN, USER, enable_thinking=False).text.endswith(closed)
    by_kwargs = render(templates.QWEN, USER, chat_template_kwargs={"enable_thinking": False})
    assert by_kwargs.text.endswith(closed)
    assert not by_kwargs.opened_reasoning
    assert render(templates.QWEN, USER, enable_thinking=True).text.endswith("<|im_start|>assistant\n")


def test_an_opened_thought_is_reported() -> None:
    prompt = render(templates.DEEPSEEK, SYSTEM, USER)
    assert prompt.text == "<s>Be brief.<｜User｜>How warm is it in Zürich?<｜Assistant｜><think>\n"
    assert prompt.opened_reasoning
    assert prompt.adds_bos
    assert not render(templates.DEEPSEEK, USER, add_generation_prompt=False).opened_reasoning


def test_calls_of_a_form_not_known_here_are_taught() -> None:
    prompt = render(templates.DEEPSEEK, USER, CALLING, RESULT, tools=(WEATHER,))
    assert "tool▁call" not in prompt.text
    assert "<tool_call>" in prompt.text
    assert "# Tools" in prompt.text
    assert prompt.dialect is Dialect.HERMES


def test_llama3() -> None:
    prompt = render(templates.LLAMA3, SYSTEM, USER, CALLING, RESULT, tools=(WEATHER,))
    assert prompt.text.startswith("<s><|start_header_id|>system")
    assert prompt.adds_bos
    assert "Today Date: 30 Nov 2026" in prompt.text
    assert '{\n    "type": "function",' in prompt.text
    assert '{"name": "get_weather", "parameters": {"city": "Zürich"}}<|eot_id|>' in prompt.text
    assert prompt.dialect is Dialect.LLAMA3
    assert prompt.visible_special == ("<|python_tag|>",)


def test_what_the_template_refuses_is_told() -> None:
    two = {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]}
    with pytest.raises(InvalidRequest, match="only supports single tool-calls at once!") as caught:
        render(templates.LLAMA3, USER, two, tools=(WEATHER,))
    assert caught.value.param == "messages"


def test_mistral_gets_short_call_ids() -> None:
    answer = {"role": "assistant", "content": "12 °C."}
    prompt = render(templates.MISTRAL, SYSTEM, USER, CALLING, RESULT, answer, USER, tools=(WEATHER,))
    start = prompt.text.index('"id": "') + 7
    short = prompt.text[start : start + 9]
    assert short.isalnum()
    assert f'[TOOL_RESULTS] {{"content": 12 °C, "call_id": "{short}"}}[/TOOL_RESULTS]' in prompt.text
    assert '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Zürich"}, "id"' in prompt.text
    assert "Be brief." in prompt.text
    assert prompt.dialect is Dialect.MISTRAL


def test_neighbours_are_joined_where_roles_must_alternate() -> None:
    prompt = render(templates.MISTRAL, SYSTEM, USER, {"role": "user", "content": "Now?"})
    assert prompt.text == "<s>[INST] Be brief.\n\nHow warm is it in Zürich?\n\nNow?[/INST]"


def test_mistral_args() -> None:
    prompt = render(templates.MISTRAL_ARGS, SYSTEM, USER, CALLING, RESULT, tools=(WEATHER,))
    assert '[TOOL_CALLS]get_weather[ARGS]{"city": "Zürich"}</s>[TOOL_RESULTS]12 °C' in prompt.text
    assert prompt.dialect is Dialect.MISTRAL_ARGS
    assert prompt.reasoning == ReasoningTags("[THINK]", "[/THINK]")


def test_a_refused_system_message_goes_to_the_user() -> None:
    prompt = render(templates.GEMMA, SYSTEM, USER)
    assert prompt.text == (
        "<s>\n<start_of_turn>user\nBe brief.\n\nHow warm is it in Zürich?<end_of_turn>\n"
        "<start_of_turn>model\n"
    ).replace("<s>\n", "<s>")


def test_a_dropped_system_message_goes_to_the_user() -> None:
    source = "{% for m in messages if m.role != 'system' %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    assert render(source, SYSTEM, USER).text == "[user] Be brief.\n\nHow warm is it in Zürich?\n"


def test_gemma_with_tools_and_results() -> None:
    prompt = render(templates.GEMMA, SYSTEM, USER, CALLING, RESULT, USER, tools=(WEATHER,))
    assert prompt.text.count("<start_of_turn>user") == 2
    assert "<start_of_turn>user\nBe brief.\n\n# Tools" in prompt.text
    assert "12 °C\n</tool_response>\n\nHow warm" in prompt.text


def test_order_that_no_template_of_this_kind_takes() -> None:
    with pytest.raises(InvalidRequest, match="refuses this conversation: Conversation roles must alternate"):
        render(templates.GEMMA, {"role": "assistant", "content": "Hi."}, USER)


def test_developer_is_system_unless_the_template_knows_it() -> None:
    developer = {"role": "developer", "content": "Be brief."}
    assert render(templates.QWEN, developer, USER).text.startswith("<|im_start|>system\nBe brief.")
    knows = "{% for m in messages %}{% if m.role == 'developer' %}D:{% endif %}{{ m.content }};{% endfor %}"
    assert render(knows, developer).text == "D:Be brief.;"


def test_text_parts_are_joined_and_others_refused() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert "user\none\ntwo<|im_end|>" in render("", {"role": "user", "content": parts}).text
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    with pytest.raises(InvalidRequest) as caught:
        render("", USER, image)
    assert caught.value.param == "messages[1].content[0].type"


def test_templates_that_add_to_null_or_to_objects() -> None:
    adds = (
        "{% for m in messages %}{{ m.content + '|' }}"
        "{% for c in m.tool_calls or [] %}{{ '>' + c.function.arguments }}{% endfor %}{% endfor %}"
    )
    # `tools` makes it count as a template that knows tools in a known form.
    source = adds + "{% if tools %}<tool_call>{% endif %}"
    assert render(source, USER, CALLING).text == 'How warm is it in Zürich?||>{"city": "Zürich"}'


def test_a_result_carries_the_name_of_its_call() -> None:
    source = "{% for m in messages if m.role == 'tool' %}{{ m.name }}{% endfor %}"
    assert (
        render(source + "{% if tools %}<tool_call>{% endif %}", USER, CALLING, RESULT).text == "get_weather"
    )


def test_arguments_that_are_not_json_stay_text() -> None:
    broken = CALLING | {"tool_calls": [CALL | {"function": {"name": "get_weather", "arguments": "{oops"}}]}
    assert '"arguments": {oops}' in render(templates.QWEN, USER, broken).text


def test_the_messages_given_are_left_alone() -> None:
    messages = (SYSTEM, USER, CALLING, RESULT)
    before = repr(messages)
    render(templates.MISTRAL, *messages, tools=(WEATHER,))
    assert repr(messages) == before


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token"])
def test_kwargs_may_not_replace_the_request(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        render("", USER, chat_template_kwargs={name: "x"})
    assert caught.value.param == "chat_template_kwargs"


def test_kwargs_reach_the_template() -> None:
    prompt = render(templates.LLAMA3, USER, chat_template_kwargs={"date_string": "1 Jan 1970"})
    assert "Today Date: 1 Jan 1970" in prompt.text


def test_a_broken_template_is_told() -> None:
    with pytest.raises(InvalidRequest, match="cannot be read: TemplateSyntaxError"):
        render("{% for", USER)
    with pytest.raises(InvalidRequest, match="cannot render this conversation: UndefinedError"):
        render("{{ nothing.at.all }}", USER)
    with pytest.raises(InvalidRequest, match="the limit is"):
        render("x" * 600_000, USER)
