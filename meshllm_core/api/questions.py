"""What a client may ask the node to look up: `GET /api/<name>?…`, for those who hold the token.

Unlike an action a question changes nothing; unlike the snapshot its answer is made when it is asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from starlette.datastructures import QueryParams

from meshllm_core.api.manage_actions import sentence_of
from meshllm_core.api.schema_certify import Certificates, CertificatesArguments
from meshllm_core.api.schema_config import Config, ConfigArguments
from meshllm_core.api.schema_logs import LogPiece, LogsAnswer, LogsArguments, ReadLogArguments
from meshllm_core.api.schema_models import (
    Catalog,
    HubRepo,
    HubSearch,
    Library,
    NoArguments,
    RepoArguments,
    SearchArguments,
)
from meshllm_core.api.schema_plan import PlanAnswer, PlanArguments, PlanModels, PlanModelsArguments
from meshllm_core.errors import InvalidRequest


@dataclass(frozen=True)
class QuestionSpec:
    """One question, with the types of what it takes and answers."""

    name: str
    """Of the path below /api/; may have slashes."""
    summary: str
    """One line for the docs."""
    arguments: type[msgspec.Struct]
    """Flat: each field is a parameter of the query."""
    answer: type[msgspec.Struct]


QUESTIONS: Mapping[str, QuestionSpec] = {
    spec.name: spec
    for spec in (
        # One line per question.
        QuestionSpec("certificates", "What is known of codecs.", CertificatesArguments, Certificates),
        QuestionSpec("config", "Every setting and where it comes from.", ConfigArguments, Config),
        QuestionSpec("library", "The models on this machine's disk.", NoArguments, Library),
        QuestionSpec("catalog", "Models worth offering, and where they fit.", NoArguments, Catalog),
        QuestionSpec("hub/search", "Find models at the hub.", SearchArguments, HubSearch),
        QuestionSpec("hub/models", "What a repository of the hub holds.", RepoArguments, HubRepo),
        QuestionSpec("logs", "Which logs this node and its engines write.", LogsArguments, LogsAnswer),
        QuestionSpec("logs/read", "A piece of one log.", ReadLogArguments, LogPiece),
        QuestionSpec("plan", "Where a model would run, how fast, and why.", PlanArguments, PlanAnswer),
        QuestionSpec("plan/models", "Which models can be planned.", PlanModelsArguments, PlanModels),
    )
}


def read_query(spec: QuestionSpec, query: QueryParams) -> msgspec.Struct:
    """The arguments of a question. Raises InvalidRequest naming the parameter."""
    given = dict(query.items())
    if len(given) != len(query.multi_items()):
        raise InvalidRequest(f"{spec.name}: a parameter is given twice.", hint="Give each of them once.")
    try:
        return msgspec.convert(given, spec.arguments, strict=False)
    except msgspec.ValidationError as error:
        text, field = sentence_of(error)
        raise InvalidRequest(
            f"{spec.name}: {text}", hint="/docs lists the parameters.", param=field
        ) from None
