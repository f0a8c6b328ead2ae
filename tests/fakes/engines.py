"""Fakes of engines that a run attaches to: the pages about themselves, and scripted answers to
chats."""

import json
from collections.abc import Callable
from typing import Any

from core.engines.attach import probe
from core.engines.protocol import Server
from tests.fakes.http import Answer, HttpFake, Request, answer

Said = tuple[str, str, str]  # content, reasoning, finish reason


def plain(prompt: str, cap: int, seed: int) -> Said:
    return f"It is \\boxed{{{seed % 7}}}", "", "stop"


class StandIn(HttpFake):
    """A server of these `pages` (a page may be a function of the request's body), which answers
    chats by `say(prompt, cap, seed)`."""

    def __init__(
        self, pages: dict[str, Any], say: Callable[[str, int, int], Said] = plain, status: int = 200
    ) -> None:
        self.asked: list[dict[str, Any]] = []  # the bodies of chats
        # the path and the Authorization of each request
        self.seen: list[tuple[str, str | None]] = []
        self.faults: list[Answer] = []  # for the next chats
        # models that the next replies name, instead of the one asked for
        self.named: list[str] = []
        self.pages, self.say, self.status = pages, say, status
        super().__init__()

    def get(self, request: Request) -> None:
        self._tell(request, None)

    def post(self, request: Request, body: bytes) -> None:
        asked = json.loads(body)
        if not request.path.endswith("/chat/completions"):
            return self._tell(request, asked)
        self.asked.append(asked)
        if self.faults:
            return self.faults.pop(0)(request)
        content, reasoning, reason = self.say(
            asked["messages"][-1]["content"], asked["max_tokens"], asked["seed"]
        )
        message = {"role": "assistant", "content": content} | (
            {"reasoning": reasoning} if reasoning else {}
        )
        usage = {"prompt_tokens": 5, "completion_tokens": 7}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        with self.lock:
            named = self.named.pop(0) if self.named else asked["model"]
        answer(200, {"model": named, "choices": choices, "usage": usage})(request)

    def _tell(self, request: Request, body: dict[str, Any] | None) -> None:
        self.seen.append((request.path, request.headers["authorization"]))
        page = self.pages.get(request.path)
        page = page(body) if callable(page) else page
        content = page.encode() if isinstance(page, str) else json.dumps(page).encode()
        answer(404 if page is None else self.status, content)(request)

    def probed(self) -> Server:
        found = probe(self.url, "x")
        assert found is not None
        return found


def models(owner: str, *names: str, **about: Any) -> dict[str, Any]:
    """Return the list of models of an `owner`."""
    return {"/v1/models": {"data": [{"id": name, "owned_by": owner} | about for name in names]}}


def sglang(path: str = "/models/one", version: str = "0.5.23", **info: Any) -> dict[str, Any]:
    return models("sglang", "default", max_model_len=40960) | {
        "/server_info": {
            "model_path": path,
            "version": version,
            "dtype": "auto",
            "quantization": None,
        }
        | info,
        "/model_info": {"model_path": path, "weight_version": "default"},
    }


def vllm(
    root: str = "/models/one", version: str = "0.33.0", cache: str = "auto", **about: Any
) -> dict[str, Any]:
    metrics = f'vllm:cache_config_info{{block_size="16",cache_dtype="{cache}",engine="0"}} 1.0\n'
    listed = models(
        "vllm", "default", **{"root": root, "parent": None, "max_model_len": 40960} | about
    )
    return listed | {"/version": {"version": version}, "/metrics": f"# HELP x\n{metrics}"}


def llama(
    path: str = "/models/one.gguf", version: str = "b7000-abc", **props: Any
) -> dict[str, Any]:
    page = {"model_path": path, "build_info": version, "total_slots": 4} | props
    return models("llamacpp", "default") | {"/props": page}
