"""Scripted reward models, whose scores follow from the texts. They have the forms of vLLM, SGLang
and a chat model."""

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

from tests.fakes import engines
from tests.fakes.engines import StandIn
from tests.fakes.http import Request, answer
from tests.fakes.moody import chat

MARK = "<extra_0>"
Page = dict[str, Any]


def worth(text: str) -> float:
    """Return the scripted score of a text, in [0, 1)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32


def logit(probability: float) -> float:
    return math.log((probability + 0.001) / (1.001 - probability))


class RewardModel(StandIn):
    """A server of a reward model: of a process model that scores `mark`, or of an outcome model.
    `spoil(page)` changes each response, also into a text. `scored` are the contents of the last
    messages."""

    def __init__(
        self,
        mark: str = "",
        is_sglang: bool = False,
        labels: int = 1,
        spoil: Callable[[Page], Any] = lambda page: page,
        root: str = "/models/rm",
    ) -> None:
        self.scored: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self._mark = mark
        self._labels = labels
        self._spoil = spoil
        pages = engines.vllm(root=root) | {"/pooling": self._pooling}
        if is_sglang:
            pages = engines.sglang(path=root)
            pages |= {"/tokenize": self._tokens, "/classify": self._classify}
        super().__init__(pages)

    def _pooling(self, body: dict[str, Any]) -> Any:
        self.bodies.append(body)
        text = body["messages"][-1]["content"]
        self.scored.append(text)
        rows: Any = self._row(worth(text))
        if self._mark:
            steps = text.split(self._mark)[:-1]
            beginnings = [self._mark.join(steps[: n + 1]) for n in range(len(steps))]
            rows = [[1 - worth(beginning), worth(beginning)] for beginning in beginnings]
        return self._spoil(
            {
                "object": "list",
                "model": body["model"],
                "data": [{"index": 0, "object": "pooling", "data": rows}],
                "usage": {"prompt_tokens": len(text) // 4 + 9, "total_tokens": len(text) // 4 + 9},
            }
        )

    def _row(self, score: float) -> list[float]:
        return [score] if self._labels == 1 else [1 - score, score]

    def _tokens(self, body: dict[str, Any]) -> Any:
        if "messages" not in body:
            return None
        return {"tokens": list(json.dumps(body["messages"]).encode())}

    def _classify(self, body: dict[str, Any]) -> Any:
        self.bodies.append(body)
        text = json.loads(bytes(body["input_ids"]))[-1]["content"]
        self.scored.append(text)
        numbers = [worth(text)]
        if self._labels == 2:
            numbers = [0.5, 0.5 + logit(worth(text))]
        meta = {"id": "1", "finish_reason": None, "prompt_tokens": len(text) // 4 + 9}
        return self._spoil({"embedding": numbers, "meta_info": meta})


VERDICTS = ("+", "-")
OF_OTHERS = 0.25  # the probability of all words but VERDICTS


class VerdictModel(StandIn):
    """A chat model whose first token is one of VERDICTS, with probabilities that follow from the
    whole conversation (`worth_of`). `asked` are the bodies of its requests. If the last message
    contains `silent`, it lists other words."""

    def __init__(self, silent: str = "") -> None:
        self._silent = silent
        super().__init__(engines.vllm(root="/models/prm"))

    def post(self, request: Request, body: bytes) -> None:
        if not request.path.endswith("/chat/completions"):
            return super().post(request, body)
        asked = json.loads(body)
        with self.lock:
            self.asked.append(asked)
        right = (1 - OF_OTHERS) * worth_of(asked["messages"])
        masses = {"+": right, "Sure": OF_OTHERS, "-": 1 - OF_OTHERS - right}
        if self._silent and self._silent in asked["messages"][-1]["content"]:
            masses = {"Sure": 1.0}
        listed = [{"token": word, "logprob": math.log(mass)} for word, mass in masses.items()]
        token = listed[0] | {"top_logprobs": listed}
        page = chat("+", finish_reason="length", logprobs={"content": [token]})
        usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 1}
        return answer(200, page | {"model": asked["model"], "usage": usage})(request)


def worth_of(messages: list[dict[str, str]]) -> float:
    """Return the scripted score of the last step of a conversation, in (0, 1)."""
    return 0.001 + 0.998 * worth(json.dumps(messages))
