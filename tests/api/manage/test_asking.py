"""Questions: what clients look up by GET, with the token."""

import pytest

from meshllm_core.api.questions import QUESTIONS
from meshllm_core.errors import InvalidRequest, ModelUnknown, NotAuthorized
from tests.api.manage.conftest import Echoed, running


async def test_arguments_arrive_with_their_types() -> None:
    async with running() as node:
        answer = await node.client.ask("echo/twice", Echoed, text="a & b=ü", times=3, loud=True)
        assert node.backend.asked == [("echo/twice", {"text": "a & b=ü", "times": 3, "loud": True})]
        assert "a & b=ü" in answer.text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "text"),
        ("text=x&times=many", "times"),
        ("text=x&other=1", "other"),
        ("text=" + "x" * 21, "text"),
        ("text=x&text=y", "twice"),
    ],
)
async def test_wrong_arguments_are_refused_by_name(query: str, words: str) -> None:
    async with running() as node:
        headers = {"authorization": f"Bearer {'t' * 43}"}
        answer = await node.http.get(f"/api/echo/twice?{query}", headers=headers)
        assert answer.status_code == 400, answer.text
        assert words in answer.json()["error"]["message"]
        assert node.backend.asked == []


async def test_questions_need_the_token() -> None:
    async with running() as node:
        answer = await node.http.get("/api/echo/twice?text=x")
        assert answer.status_code == 401
        other = type(node.client)(node.url, token="u" * 43)
        with pytest.raises(NotAuthorized):
            await other.ask("echo/twice", Echoed, text="x")
        await other.close()


async def test_a_refusal_and_a_wrong_argument_arrive_as_errors() -> None:
    async with running() as node:
        with pytest.raises(InvalidRequest):
            await node.client.ask("echo/twice", Echoed, text="x" * 30)
        node.fail_with(ModelUnknown("There is no such model.", hint="Look again."))
        with pytest.raises(ModelUnknown, match="no such model"):
            await node.client.ask("echo/twice", Echoed, text="x")


async def test_the_docs_list_the_parameters() -> None:
    async with running() as node:
        document = (await node.http.get("/openapi.json")).json()
        names = [each["name"] for each in document["paths"]["/api/echo/twice"]["get"]["parameters"]]
        assert names == ["text", "times", "loud"]
        assert "Echoed" in document["components"]["schemas"]


def test_names_of_questions_hide_no_other_route() -> None:
    taken = {"status", "snapshot", "events", "actions"}
    assert not taken & {name.partition("/")[0] for name in QUESTIONS}
