"""Engines: attach to a server that runs, or start the best one this machine can.

The order (`serving`): BASE_URL if set; a server on port 30000; with an NVIDIA GPU, SGLang with QED-Nano; else the
embedded engine (llama.cpp through xllamacpp, in this process) with the embedded model. ENGINE asks for one of them, or
for llama.cpp with the GGUF file that MODEL names.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from core.engines import flags, identity, leash, llamacpp, weights
from core.engines.flags import Need
from core.engines.gguf_header import Gguf
from core.engines.origin import Elsewhere, SameOrigin
from core.errors import UserError, command, one_line
from core.files import ROOT, results_dir

HOST = os.environ.get("BIND", "").strip() or "127.0.0.1"  # the address that our servers listen on
PORT = os.environ.get("PORT", "30000")
API_KEY = os.environ.get("API_KEY", "").strip()  # a key read from a file often ends in a newline

EMBEDDED_GGUF = ROOT / "data" / "embedded" / "model.gguf"
EMBEDDED_NAME = "qed-rsa-embedded"
EMBEDDED_SLOTS = 16  # requests decoded together
EMBEDDED_THREADS = max(1, min(4, (os.cpu_count() or 2) // 2))  # a model this small gains nothing from more
EMBEDDED_CONTEXT = 2048  # tokens per slot: what the model was trained for

START_SECONDS = 1200  # for an engine on a GPU: the first start loads 8 GB and captures CUDA graphs
ENGINES = (*flags.ENGINES, "llamacpp", "embedded")
UNKNOWN_LIMIT = 16  # requests in flight where a server tells nothing about itself


@dataclass(frozen=True)
class Server:
    """A server that answers. `identity` names the model in journal keys, and `told` is what else decides its answers:
    where both are equal, answers are interchangeable."""

    kind: str  # "llama.cpp", "sglang", "vllm" or "other"
    base_url: str  # ends in /v1
    model: str  # the name that requests use
    why: str  # how it came to be chosen, for the first line a run prints
    limit: int = UNKNOWN_LIMIT  # requests in flight that keep it full
    context: int | None = None  # tokens of prompt and completion together, for one request
    version: str | None = None
    sha256: str | None = None  # of the model's file, where MODEL names it
    closes: bool = False  # SGLang: the chat template knows enable_thinking, which closes thinking in its own tokens
    seeds: bool | None = None  # whether a request's seed decides what is drawn; None where that is not known
    weights: dict[str, str] = field(default_factory=dict, hash=False)  # what it tells of them (identity.told)
    path: str = ""  # of the model's files, as the server calls it
    worker: str = ""  # behind a gateway: the address of a server that tells what the gateway doesn't
    opens: bool | None = None  # its chat template opens thinking; None: see `thinking`
    api_key: str = field(default=API_KEY, repr=False)
    # Of a server that was started here: why it ended; None while it runs, and for servers of others.
    failure: Callable[[], str | None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def identity(self) -> str:
        """A server of an unknown kind may call anything "default": there, the address belongs to it."""
        return f"{self.model} at {self.base_url}" if self.kind == "other" else self.model

    @property
    def is_embedded(self) -> bool:
        return self.model.startswith(EMBEDDED_NAME)

    @property
    def told(self) -> dict[str, str]:
        """What enters journal keys beside `identity`. Nothing for llama.cpp under a name of ours, which tells the
        content of its weights; for a server of an unknown kind the address says it."""
        is_plain = self.kind == "other" or (self.kind == "llama.cpp" and not self.weights)
        return {} if is_plain else {"kind": self.kind} | self.weights

    @property
    def origin(self) -> str:
        """Who answers, in a line: it stands beside each completion in the journal. A server that tells nothing of its
        weights is known by its address. (llama.cpp in this process and one attached to call their releases by
        different names; under a name of ours neither is told.)"""
        if self.kind == "llama.cpp" and not self.weights and identity.names_content(self.model):
            return f"llama.cpp, {self.model}"
        which = [f"{name} {value}" for name, value in self.weights.items()]
        if not which and not identity.names_content(self.model):
            which = [f"at {self.base_url}"]
        return one_line(", ".join([f"{self.kind} {self.version or ''}".strip(), self.model, *which]), 500)

    @cached_property
    def thinking(self) -> bool | None:
        """Whether its chat template opens thinking in the prompt: then text without any tag that the cap cut off is
        thinking. None where the server does not tell. It is asked when this is read for the first time."""
        try:
            return identity.opens_thinking(_prompt(self)) if self.opens is None else self.opens
        except UserError:  # it refuses our key there
            return None

    @property
    def streams(self) -> bool:
        """Whether replies are asked for as streams, which tell a request at work from a lost one. On the embedded
        engine an event for every token would cost a third of the speed, and completions take seconds."""
        return not self.is_embedded

    @property
    def problem_set(self) -> str:
        """The set this model is measured on when none is named."""
        return "sums" if self.is_embedded else "aime_2025"

    def model_info(self) -> dict[str, Any]:
        """What the results say of the model."""
        info: dict[str, Any] = {"name": self.model, "revision": None, "sha256": self.sha256, "told": self.told}
        if self.is_embedded and self.model == embedded_name():
            info["sha256"] = _sha256(EMBEDDED_GGUF)
        elif self.model == weights.REPO and (note := weights.fetched()):
            info["revision"] = note["revision"]
        return info


@contextmanager
def serving(need: Need | None = None) -> Iterator[Server]:
    """The server of this run, ready for requests; one that the run started, for what it will `need`, is stopped at the
    end."""
    wanted = check_environment()
    base_url = os.environ.get("BASE_URL", "").strip()
    if base_url:
        server = probe(base_url, "BASE_URL is set")
        if server is None:
            raise UserError(f"no server answers at BASE_URL={base_url}. Start it, or unset BASE_URL")
        yield server
        return
    asked = f"ENGINE={wanted} asks for it"
    if wanted == "embedded":  # in this process, and so beside whatever runs
        with embedded(why=asked) as server:
            yield server
        return
    gguf = llamacpp.chosen() if wanted == "llamacpp" else None
    server = probe(f"http://{HOST}:{PORT}/v1", f"a server answers on port {PORT}") if _serves_models() else None
    if server is not None:
        if gguf and server.model != llamacpp.name_of(gguf):
            raise UserError(
                f"ENGINE=llamacpp asks for {gguf.name}, but port {PORT} serves {server.model}. Stop that server, unset "
                "ENGINE to use it, or choose another PORT"
            )
        if wanted and server.kind.replace(".", "") != wanted:
            raise UserError(
                f"ENGINE={wanted}, but a server of kind {server.kind} answers on port {PORT}. Stop it, unset ENGINE "
                "to use it, or choose another PORT"
            )
        yield replace(server, sha256=llamacpp.sha256(gguf)) if gguf else server
    elif gguf:
        with on_llamacpp(gguf, need or Need(), why=f"{asked}; it was started for this run") as server:
            yield server
    elif wanted or has_gpu():
        engine = wanted or "sglang"
        why = f"{asked if wanted else 'an NVIDIA GPU is here'}; it was started for this run"
        if subprocess.run(["bash", str(ROOT / "setup.sh"), engine], check=False).returncode != 0:
            raise SystemExit(2)  # setup.sh has said why
        with launched(engine, need or Need(), why, results_dir() / f"{engine}.log") as server:
            yield server
    else:
        with embedded() as server:
            yield server


# Attaching


def probe(base_url: str, why: str, model: str = "") -> Server | None:
    """The server at `base_url` with what it tells of itself; None where nothing answers. Of several models it serves,
    `model` is meant, or the one that MODEL names."""
    base_url = base_url.rstrip("/")
    try:
        parts = urllib.parse.urlsplit(base_url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UserError(f"BASE_URL={base_url} is no address. Give one like http://127.0.0.1:30000/v1")
    if parts.username or parts.password:
        raise UserError("BASE_URL holds a user name or a password, which would be printed. Put the secret into API_KEY")
    if not base_url.endswith("/v1"):
        base_url += "/v1"
    listed = _get(f"{base_url}/models", is_base=True)
    if listed is None:
        return None
    models = {m["id"]: m for m in listed.get("data") or [] if isinstance(m, dict) and isinstance(m.get("id"), str)}
    root = base_url.removesuffix("/v1")
    is_maybe_gateway = any(about.get("owned_by") == "local" for about in models.values())
    if is_maybe_gateway and (behind := (_get(f"{root}/workers") or {}).get("workers")):
        return _gateway(base_url, why, [worker["url"] for worker in behind if worker.get("is_healthy")])
    wanted = model or flags.named_model()
    if not models and not wanted:
        raise UserError(f"the server at {base_url} lists no models. Name one with MODEL=…")
    if (wanted and models and wanted not in models) or (not wanted and len(models) > 1):
        shown = ", ".join(list(models)[:8])
        raise UserError(f"set MODEL to one of the models served at {base_url}: {shown}")
    model = wanted or next(iter(models))
    about = models.get(model, {})
    owner = str(about.get("owned_by", "")).lower()
    if owner == "llamacpp" or (owner not in ("sglang", "vllm") and _get(f"{root}/props")):
        props = _page(f"{root}/props")
        slots = int(props.get("total_slots") or 1)
        context = (props.get("default_generation_settings") or {}).get("n_ctx")
        release, path = props.get("build_info"), str(props.get("model_path") or "")
        found = Server("llama.cpp", base_url, model, why, slots + 2, context, release, seeds=True, path=path)
        return replace(found, weights=identity.told(model, path, {}, is_local(base_url)))
    longest = about.get("max_model_len")
    context = longest if isinstance(longest, int) else None
    found = Server(owner if owner in ("sglang", "vllm") else "other", base_url, model, why, context=context)
    if owner == "sglang":
        info = _page(f"{root}/server_info") or _page(f"{root}/get_server_info")  # the second: before 0.5.23
        now = _page(f"{root}/model_info") or _page(f"{root}/get_model_info")  # weights may be changed while it serves
        path = str((info | now).get("model_path") or "")
        return replace(
            found,
            limit=_sglang_limit(info),
            version=info.get("version"),
            closes=_closes(root, model),
            seeds=info.get("enable_deterministic_inference") is True,  # without it, SGLang draws as it likes
            weights=identity.told(model, path, info | now, is_local(base_url)),
            path=path,
        )
    if owner == "vllm":
        metrics = _text(f"{root}/metrics")
        cache = re.search(r'cache_config_info\{[^}]*cache_dtype="([^"]+)"', metrics)
        base = models.get(str(about.get("parent")), {})  # of an adapter
        settings = {"kv_cache_dtype": cache and cache[1], "base": base.get("root")}
        path = str(about.get("root") or "")
        return replace(
            found,
            limit=_vllm_limit(root, metrics),
            version=_page(f"{root}/version").get("version"),
            seeds=True,
            weights=identity.told(model, path, settings, is_local(base_url)),
            path=path,
        )
    return found


def _gateway(base_url: str, why: str, urls: list[str]) -> Server:
    """SGLang Model Gateway, which tells neither engine nor context: what the servers at `urls` behind it tell, with
    their limits added up. Answers are kept under the name of the model, as theirs are."""
    servers = [server for url in urls if (server := probe(url, why))]
    if not servers:
        raise UserError(f"the gateway at {base_url} has no server that answers from here. Look into its servers' logs")
    if len(served := {(server.kind, server.model, *server.weights.values()) for server in servers}) > 1:
        raise UserError(
            f"the gateway at {base_url} mixes {sorted(served)}. A run needs servers of one model and engine"
        )
    return replace(
        servers[0],
        base_url=base_url,
        why=f"{why}, a gateway in front of {len(servers)} servers",
        limit=sum(server.limit for server in servers),
        context=min((server.context for server in servers if server.context), default=None),
        seeds=all(server.seeds for server in servers),
        version=" and ".join(sorted({server.version for server in servers if server.version})) or None,
        worker=servers[0].base_url,
    )


def _sglang_limit(info: dict[str, Any]) -> int:
    """Requests in flight that keep SGLang full: as many as it decodes together, or as its KV cache holds of short ones.
    What does not fit waits in its own queue, so that a guess too high costs nothing; two wait there in any case."""
    tokens = int(info.get("max_total_num_tokens") or 8192 * UNKNOWN_LIMIT)
    running = int(info.get("max_running_requests") or flags.MOST_RUNNING)
    return 2 + max(1, min(running, tokens // flags.FEWEST_HELD))


def _vllm_limit(root: str, metrics: str) -> int:
    """The same for vLLM, which queues by itself, too. It tells the requests that it decodes together (max_num_seqs)
    in its development mode only; else its KV cache stands among its `metrics`, a line for each of its engines."""
    settings = (_get(f"{root}/server_info?config_format=json") or {}).get("vllm_config")
    scheduler = settings.get("scheduler_config") if isinstance(settings, dict) else None
    told = scheduler.get("max_num_seqs") if isinstance(scheduler, dict) else None
    if isinstance(told, int) and told > 0:
        return 2 + told
    engines = [
        dict(_LABEL.findall(line)) for line in metrics.splitlines() if line.startswith("vllm:cache_config_info{")
    ]
    tokens = sum(_cache_tokens(engine) for engine in engines) or flags.MOST_RUNNING * flags.FEWEST_HELD
    return 2 + max(1, min(flags.MOST_RUNNING * max(1, len(engines)), tokens // flags.FEWEST_HELD))


_LABEL = re.compile(r'(\w+)="(\d*)')  # of a metric; of its value, the digits that it begins with


def _cache_tokens(labels: Mapping[str, str]) -> int:
    """Tokens of KV cache; 0 where that is not told. Older releases tell its blocks only."""
    blocks, size = (int(labels.get(name) or 0) for name in ("num_gpu_blocks", "block_size"))
    return int(labels.get("kv_cache_size_tokens") or 0) or blocks * size


def _closes(root: str, model: str) -> bool:
    """Whether SGLang's chat template renders another prompt where thinking is switched off."""
    asked = {"model": model, "messages": [{"role": "user", "content": "1"}], "add_generation_prompt": True}
    closed = asked | {"chat_template_kwargs": {"enable_thinking": False}}
    rendered = [(_get(f"{root}/tokenize", body) or {}).get("tokens") for body in (asked, closed)]
    return isinstance(rendered[1], list) and rendered[0] != rendered[1]


def _get(url: str, body: dict[str, Any] | None = None, is_base: bool = False) -> dict[str, Any] | None:
    """The JSON object at `url`, or that it answers a `body` with; {} where something else answers, None where nothing
    does. Raises Elsewhere where `is_base`, all that we do with the server rests on it; what is asked besides, it may
    send on to its manual, say."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    if API_KEY:
        request.add_header("Authorization", f"Bearer {API_KEY}")
    try:
        with _opener(url).open(request, timeout=10) as reply:
            found = json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise UserError(f"the server at {url} refuses the key. Set API_KEY to a valid one") from None
        return {}
    except Elsewhere:
        if is_base:
            raise
        return {}
    except ValueError:
        return {}
    except (OSError, http.client.HTTPException):
        return None
    return found if isinstance(found, dict) else {}


def _page(url: str) -> dict[str, Any]:
    """The JSON object at `url`, {} where there is none. A server too busy to answer is asked twice: what it does not
    tell is missing from the journal's keys."""
    found = _get(url)
    return (_get(url) if found is None else found) or {}


def _text(url: str) -> str:
    """The text at `url`, "" where there is none."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {API_KEY}"} if API_KEY else {})
    try:
        with _opener(url).open(request, timeout=10) as reply:
            return str(reply.read(2**22).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException, Elsewhere):
        return ""


def _prompt(server: Server) -> str | None:
    """What `server`'s chat template makes of one message, as the server itself renders it; else as we do, where it
    tells the template, or its model lies on this machine."""
    root = (server.worker or server.base_url).removesuffix("/v1")
    asked = {"model": server.model, "messages": [{"role": "user", "content": identity.MARK}]}
    if server.kind == "llama.cpp":
        made = (_get(f"{root}/apply-template", asked) or {}).get("prompt")
        return made or identity.rendered(_page(f"{root}/props").get("chat_template"))
    if server.kind not in ("sglang", "vllm"):
        return None
    if tokens := (_get(f"{root}/tokenize", asked) or {}).get("tokens"):
        said = _get(f"{root}/detokenize", {"model": server.model, "tokens": tokens, "skip_special_tokens": False}) or {}
        if made := said.get("text" if server.kind == "sglang" else "prompt"):
            return str(made)
    is_its_own = is_local(root) and "chat_template" not in server.weights
    return identity.rendered(identity.template_of(server.path)) if is_its_own else None


def is_local(url: str) -> bool:
    """Whether `url` is on this machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _opener(url: str) -> urllib.request.OpenerDirector:
    """A proxy of the environment (http_proxy) is for the world outside, never for a server on this machine."""
    return urllib.request.build_opener(SameOrigin, *([urllib.request.ProxyHandler({})] if is_local(url) else []))


def _serves_models() -> bool:
    """Whether what answers on our port is a server of models, and not another program's."""
    return bool((_get(f"http://{HOST}:{PORT}/v1/models") or {}).get("data"))


def check_environment() -> str:
    """The engine that ENGINE asks for, or "". Raises UserError for settings that cannot be meant."""
    engine = os.environ.get("ENGINE", "").strip().lower()
    if engine and engine not in ENGINES:
        raise UserError(f"ENGINE={engine} is not known. There are: {', '.join(ENGINES)}; unset, the best is taken")
    if not PORT.isascii() or not PORT.isdigit() or not 0 < int(PORT) < 65536:
        raise UserError(f"PORT={PORT} is no port. Give a number from 1 to 65535")
    if not API_KEY.isascii() or not API_KEY.isprintable() or " " in API_KEY:
        raise UserError("API_KEY holds a character that no key has (it is not shown here). Set it again")
    if not API_KEY and not is_local(f"http://{HOST}"):
        raise UserError(f"BIND={HOST} opens the server to the network. Set API_KEY, which requests must then carry")
    return engine


# llama.cpp in this process


def embedded_name() -> str:
    """The embedded model under a name that says which file it is, so that retraining changes every journal key."""
    return f"{EMBEDDED_NAME}@{_sha256(EMBEDDED_GGUF)[:12]}"


@contextmanager
def embedded(
    port: int = 0, why: str = f"no server of models answers on port {PORT} and there is no NVIDIA GPU"
) -> Iterator[Server]:
    """The embedded model on llama.cpp in this process, on a free port (or on `port`). It asks for API_KEY if set."""
    name = embedded_name()
    size = llamacpp.Size(EMBEDDED_SLOTS, EMBEDDED_CONTEXT, EMBEDDED_THREADS)
    with llamacpp.serving(EMBEDDED_GGUF, name, HOST, port, size, API_KEY, exact=True) as address:
        yield _llamacpp_server(address, name, size, why)


@contextmanager
def on_llamacpp(gguf: Path, need: Need, port: int = 0, why: str = "it was asked for") -> Iterator[Server]:
    """The model in a `gguf` file on llama.cpp in this process, sized for what a run will `need`, on a free port of
    127.0.0.1 (or on `port`)."""
    model = Gguf.read(gguf)
    size = llamacpp.size(model, need, llamacpp.memory(), llamacpp.physical_cores())
    if size.context < need.context:
        why_less = "the model was trained for no more" if size.context == model.longest else "the memory holds no more"
        print(
            f"note: a request may hold {size.context:,} tokens ({why_less}) and the longest may need {need.context:,}: "
            "aggregations that do not fit fail or are cut short. Lower MAX_TOKENS or K if they are",
            file=sys.stderr,
        )
    name = llamacpp.name_of(gguf)
    with llamacpp.serving(gguf, name, HOST, port, size, API_KEY, exact=False) as address:
        yield replace(_llamacpp_server(address, name, size, why), sha256=llamacpp.sha256(gguf))


def _llamacpp_server(address: str, name: str, size: llamacpp.Size, why: str) -> Server:
    server = Server(
        "llama.cpp",
        address + "/v1",
        name,
        why,
        limit=size.slots + 2,  # two wait at the door, so that no slot stands empty
        context=size.context,
        version=llamacpp.release(),
        seeds=True,
    )
    return replace(server, opens=server.thinking)


# Engines on a GPU


@cache  # a driver may take seconds to answer
def has_gpu() -> bool:
    """Whether an NVIDIA GPU with a working driver is here."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and "GPU" in listed.stdout


@contextmanager
def launched(engine: str, need: Need, why: str, log: Path | None = None, extra: Sequence[str] = ()) -> Iterator[Server]:
    """SGLang or vLLM with the chosen model, started here and stopped with all its processes at the end. Its output goes
    to `log`, or to standard error."""
    name = flags.ENGINES[engine]
    if not has_gpu():
        raise UserError(f"{name} needs an NVIDIA GPU and nvidia-smi lists none. Unset ENGINE to run on what is here")
    model = flags.Model.chosen()
    args = flags.command(engine, model, need, HOST, int(PORT), extra)
    print(f"{flags.shown(args)}\n", file=sys.stderr)
    if log:
        print(f"starting {name} (a few minutes; its log: {log})", file=sys.stderr)
    folder = tempfile.TemporaryDirectory()
    with folder:
        hidden, environment = flags.secrets(engine, API_KEY, Path(folder.name))
        with leash.running(name, [*args, *hidden], int(PORT), log, environment, API_KEY) as started:
            server = started.wait_until(lambda: _healthy(why, model.name), START_SECONDS)
            folder.cleanup()  # the key is read: should we be killed, it lies nowhere
            if limit := flags.decoded_together(args):
                server = replace(server, limit=2 + limit)
            yield replace(server, failure=started.failure)


def _healthy(why: str, model: str) -> Server | None:
    """The server on our port once it says that it is ready (a loading one answers 503 or not at all)."""
    try:
        with _opener(f"http://{HOST}").open(f"http://{HOST}:{PORT}/health", timeout=10) as reply:
            return probe(f"http://{HOST}:{PORT}/v1", why, model) if reply.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None


def _sha256(path: Path) -> str:
    try:
        return llamacpp.sha256(path)
    except OSError as error:
        raise UserError(
            f"the embedded model {path} can't be read ({error.strerror}). Check out the repository again"
        ) from None


def main(argv: list[str]) -> None:
    """`bash scripts/start_server.sh [NAME=value …] [flags]`: the server a run would start, in the foreground until
    Ctrl-C. K, MAX_TOKENS and ANSWER_TOKENS say what it has to hold; flags are passed on to SGLang or vLLM."""
    wanted = check_environment()
    if _get(f"http://{HOST}:{PORT}/v1/models") is not None:
        raise UserError(f"a server answers on port {PORT} already. Stop it, or choose another PORT")
    need, extra = Need.read(argv)
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.default_int_handler)
    with ExitStack() as stack:
        if wanted in flags.ENGINES or (not wanted and has_gpu()):
            server = stack.enter_context(launched(wanted or "sglang", need, "it was asked for", extra=extra))
        else:
            if extra:
                raise UserError(f"llama.cpp is given no flags here: {' '.join(extra)}. They are for a GPU's engines")
            if wanted == "llamacpp":
                server = stack.enter_context(on_llamacpp(llamacpp.chosen(), need, int(PORT)))
            else:
                server = stack.enter_context(embedded(int(PORT)))
        try:
            print(
                f"{server.model} on {server.base_url} ({server.version}; contexts of {server.context} tokens, about "
                f"{server.limit} requests at a time). Ctrl-C stops it.",
                flush=True,
            )
            while not (why := server.failure()):
                time.sleep(1)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            return
        raise UserError(why)


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
