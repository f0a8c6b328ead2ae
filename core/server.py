"""Engines: attach to a server that runs, or start the best one this machine can. The only place with launch flags.

The order (`serving`): BASE_URL if set; a server on port 30000; with an NVIDIA GPU, SGLang with QED-Nano; else the
embedded engine (llama.cpp through xllamacpp, in this process) with the embedded model.
"""

import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core import weights
from core.errors import UserError, command
from core.files import results_dir

ROOT = Path(__file__).resolve().parent.parent
HOST = os.environ.get("BIND", "").strip() or "127.0.0.1"  # the address that our servers listen on
PORT = os.environ.get("PORT", "30000")
API_KEY = os.environ.get("API_KEY", "").strip()  # a key read from a file often ends in a newline

EMBEDDED_GGUF = ROOT / "data" / "embedded" / "model.gguf"
EMBEDDED_NAME = "qed-rsa-embedded"
EMBEDDED_SLOTS = 16  # requests decoded together
EMBEDDED_THREADS = max(1, min(4, (os.cpu_count() or 2) // 2))  # a model this small gains nothing from more
EMBEDDED_CONTEXT = 2048  # tokens per slot: what the model was trained for

SGLANG_CONTEXT = 40960  # tokens: 3 carried answers and the problem, 16,384 new ones, and room
SGLANG_START_SECONDS = 1200  # the first start loads 8 GB and captures CUDA graphs
UNKNOWN_LIMIT = 16  # requests in flight where a server tells nothing about itself


@dataclass(frozen=True)
class Server:
    """A server that answers. `identity` names the model in journal keys: equal identities, interchangeable answers."""

    kind: str  # "llama.cpp", "sglang", "vllm" or "other"
    base_url: str  # ends in /v1
    model: str  # the name that requests use
    why: str  # how it came to be chosen, for the first line a run prints
    limit: int = UNKNOWN_LIMIT  # requests in flight that keep it full
    context: int | None = None  # tokens of prompt and completion together, for one request
    version: str | None = None
    api_key: str = field(default=API_KEY, repr=False)

    @property
    def identity(self) -> str:
        """A server of an unknown kind may call anything "default": there, the address belongs to it."""
        return f"{self.model} at {self.base_url}" if self.kind == "other" else self.model

    @property
    def is_embedded(self) -> bool:
        return self.model.startswith(EMBEDDED_NAME)

    @property
    def thinking(self) -> bool:
        """Whether text without any tag that the cap cut off is thinking: the template has opened the tag in the
        prompt. A guess by name; where the server tells thinking apart, it is not needed."""
        return self.is_embedded or bool(re.search(r"qed-nano|thinking|reason|r1|qwq|qwen3", self.model.lower()))

    @property
    def problem_set(self) -> str:
        """The set this model is measured on when none is named."""
        return "sums" if self.is_embedded else "aime_2025"

    def model_info(self) -> dict[str, Any]:
        """What the results say of the model."""
        info: dict[str, Any] = {"name": self.model, "revision": None, "sha256": None}
        if self.is_embedded and self.model == embedded_name():
            info["sha256"] = _sha256(EMBEDDED_GGUF)
        elif self.model == weights.REPO and (note := weights.fetched()):
            info["revision"] = note["revision"]
        return info


@contextmanager
def serving() -> Iterator[Server]:
    """The server of this run, ready for requests; one that the run started is stopped at the end."""
    check_environment()
    base_url = os.environ.get("BASE_URL", "").strip()
    if base_url:
        server = probe(base_url, "BASE_URL is set")
        if server is None:
            raise UserError(f"no server answers at BASE_URL={base_url}. Start it, or unset BASE_URL")
        yield server
        return
    server = probe(f"http://{HOST}:{PORT}/v1", f"a server answers on port {PORT}") if _serves_models() else None
    if server is not None:
        yield server
    elif has_gpu():
        with sglang() as server:
            yield server
    else:
        with embedded() as server:
            yield server


# Attaching


def probe(base_url: str, why: str) -> Server | None:
    """The server at `base_url` with what it tells of itself; None where nothing answers."""
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
    listed = _get(f"{base_url}/models")
    if listed is None:
        return None
    models = {m["id"]: m for m in listed.get("data") or [] if isinstance(m, dict) and isinstance(m.get("id"), str)}
    root = base_url.removesuffix("/v1")
    is_maybe_gateway = any(about.get("owned_by") == "local" for about in models.values())
    if is_maybe_gateway and (behind := (_get(f"{root}/workers") or {}).get("workers")):
        return _gateway(base_url, why, [worker["url"] for worker in behind if worker.get("is_healthy")])
    wanted = os.environ.get("MODEL", "").strip()
    if not models and not wanted:
        raise UserError(f"the server at {base_url} lists no models. Name one with MODEL=…")
    if (wanted and models and wanted not in models) or (not wanted and len(models) > 1):
        shown = ", ".join(list(models)[:8])
        raise UserError(f"set MODEL to one of the models served at {base_url}: {shown}")
    model = wanted or next(iter(models))
    about = models.get(model, {})
    owner = str(about.get("owned_by", "")).lower()
    if owner == "llamacpp" or (owner not in ("sglang", "vllm") and _get(f"{root}/props")):
        props = _get(f"{root}/props") or {}
        slots = int(props.get("total_slots") or 1)
        context = (props.get("default_generation_settings") or {}).get("n_ctx")
        return Server("llama.cpp", base_url, model, why, slots + 2, context, props.get("build_info"))
    told = about.get("max_model_len")
    context = told if isinstance(told, int) else None
    if owner == "sglang":
        info = _get(f"{root}/server_info") or _get(f"{root}/get_server_info") or {}  # the second: before 0.5.23
        return Server("sglang", base_url, model, why, _sglang_limit(info), context, info.get("version"))
    if owner == "vllm":
        release = (_get(f"{root}/version") or {}).get("version")
        return Server("vllm", base_url, model, why, 4 * UNKNOWN_LIMIT, context, release)
    return Server("other", base_url, model, why, context=context)


def _gateway(base_url: str, why: str, urls: list[str]) -> Server:
    """SGLang Model Gateway, which tells neither engine nor context: what the servers at `urls` behind it tell, with
    their limits added up. Answers are kept under the name of the model, as theirs are."""
    servers = [server for url in urls if (server := probe(url, why))]
    if not servers:
        raise UserError(f"the gateway at {base_url} has no server that answers from here. Look into its servers' logs")
    if len(served := {(server.kind, server.model) for server in servers}) > 1:
        raise UserError(
            f"the gateway at {base_url} mixes {sorted(served)}. A run needs servers of one model and engine"
        )
    return replace(
        servers[0],
        base_url=base_url,
        why=f"{why}, a gateway in front of {len(servers)} servers",
        limit=sum(server.limit for server in servers),
        context=min((server.context for server in servers if server.context), default=None),
    )


def _sglang_limit(info: dict[str, Any]) -> int:
    """Requests in flight that fill SGLang's KV cache. A trace holds about 8k tokens on average over its life (half of
    16k); what does not fit waits in the server's own queue, so that a guess too high costs nothing."""
    tokens = info.get("max_total_num_tokens") or 8192 * UNKNOWN_LIMIT
    running = info.get("max_running_requests") or 256
    return max(1, min(int(running), 2 + int(tokens) // 8192))


def _get(url: str) -> dict[str, Any] | None:
    """The JSON object at `url`; {} where something else answers, None where nothing does."""
    request = urllib.request.Request(url)
    if API_KEY:
        request.add_header("Authorization", f"Bearer {API_KEY}")
    try:
        with _opener(url).open(request, timeout=10) as reply:
            found = json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise UserError(f"the server at {url} refuses the key. Set API_KEY to a valid one") from None
        return {}
    except ValueError:
        return {}
    except (OSError, http.client.HTTPException):
        return None
    return found if isinstance(found, dict) else {}


def is_local(url: str) -> bool:
    """Whether `url` is on this machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _opener(url: str) -> urllib.request.OpenerDirector:
    """A proxy of the environment (http_proxy) is for the world outside, never for a server on this machine."""
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local(url) else []))


def _serves_models() -> bool:
    """Whether what answers on our port is a server of models, and not another program's."""
    return bool((_get(f"http://{HOST}:{PORT}/v1/models") or {}).get("data"))


def check_environment() -> None:
    if not PORT.isascii() or not PORT.isdigit() or not 0 < int(PORT) < 65536:
        raise UserError(f"PORT={PORT} is no port. Give a number from 1 to 65535")
    if not API_KEY.isascii() or not API_KEY.isprintable() or " " in API_KEY:
        raise UserError("API_KEY holds a character that no key has (it is not shown here). Set it again")
    if not API_KEY and not is_local(f"http://{HOST}"):
        raise UserError(f"BIND={HOST} opens the server to the network. Set API_KEY, which requests must then carry")


# The embedded engine


def embedded_name() -> str:
    """The embedded model under a name that says which file it is, so that retraining changes every journal key."""
    return f"{EMBEDDED_NAME}@{_sha256(EMBEDDED_GGUF)[:12]}"


@contextmanager
def embedded(
    port: int = 0, why: str = f"no server of models answers on port {PORT} and there is no NVIDIA GPU"
) -> Iterator[Server]:
    """llama.cpp in this process with the embedded model, on a free port (or on `port`). It asks for API_KEY if set."""
    # Before the import: OpenMP threads that spin on busy cores bring llama.cpp down from 1,400 to 3-13 tokens/s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(EMBEDDED_GGUF)
    params.model_alias = {embedded_name()}
    params.hostnames = [HOST]
    params.port = port
    params.api_keys = [API_KEY] if API_KEY else []
    params.n_parallel = EMBEDDED_SLOTS
    params.n_ctx = EMBEDDED_SLOTS * EMBEDDED_CONTEXT  # llama.cpp's n_ctx is the total over all slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = EMBEDDED_THREADS
    params.cache_ram_mib = 0  # no second prompt cache in memory
    params.verbosity = 0
    # Seeds that reproduce whatever else is in the batch need exact attention: no flash attention, KV cache in F32.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    engine = None
    try:
        # A signal that arrives inside the constructor deadlocks it: it waits until the server stands.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            engine = xllamacpp.Server(params)
        except Exception as error:
            where = f" on port {port}. Is it in use? Choose another PORT" if port else ""
            raise UserError(f"the embedded engine does not start{where} ({error})") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        # One token, so that its loop surely runs: an engine stopped before that waits for ever, now and then.
        first = urllib.request.Request(f"{engine.listening_address}/completion", b'{"prompt": "1", "n_predict": 1}')
        first.add_header("Authorization", f"Bearer {API_KEY}")
        _opener(engine.listening_address).open(first, timeout=60).read()
        yield Server(
            "llama.cpp",
            engine.listening_address + "/v1",
            embedded_name(),
            why,
            limit=EMBEDDED_SLOTS + 2,  # two wait at the door, so that no slot stands empty
            context=EMBEDDED_CONTEXT,
            version=f"xllamacpp {version('xllamacpp')}",
        )
    finally:
        # Dropping the last reference stops the server. Here and at once: at the interpreter's end, where a traceback
        # would keep it until, it waits for ever.
        engine = None


# SGLang


def has_gpu() -> bool:
    """Whether an NVIDIA GPU with a working driver is here."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and "GPU" in listed.stdout


def sglang_python() -> str:
    """The interpreter that imports sglang: SGLANG_PYTHON, the venv that setup.sh makes, or the image's own python3."""
    named = os.environ.get("SGLANG_PYTHON")
    candidates = [named] if named else [str(ROOT / ".venv-sglang" / "bin" / "python"), shutil.which("python3")]
    for python in candidates:
        if python and _imports_sglang(python):
            return python
    if named:
        raise UserError(f"SGLANG_PYTHON={named} does not import sglang. Name an interpreter that does, or unset it")
    raise UserError("no python here imports sglang. Run 'bash setup.sh', which makes an environment for it")


def _imports_sglang(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", "import sglang"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def sglang_command(extra: list[str] | None = None) -> list[str]:
    """The command that serves QED-Nano on one GPU (SGLang 0.5.23; flags looked up in its wheel, see docs/LOG.md)."""
    folder = weights.fetch()
    return [
        *(sglang_python(), "-m", "sglang.launch_server"),
        *("--model-path", str(folder), "--served-model-name", weights.REPO),
        *("--host", HOST, "--port", PORT),
        *("--context-length", str(SGLANG_CONTEXT)),
        *("--kv-cache-dtype", "fp8_e5m2"),  # half the bytes per token: twice the traces in flight
        *("--mem-fraction-static", "0.85"),
        *("--schedule-conservativeness", "0.5"),  # max_tokens is far above what most traces use
        *("--reasoning-parser", "qwen3"),
        "--enable-cache-report",
        "--enable-metrics",
        *(["--api-key", API_KEY] if API_KEY else []),
        *(extra or []),
    ]


@contextmanager
def sglang() -> Iterator[Server]:
    """SGLang with QED-Nano, started here and stopped with its whole process group at the end."""
    log = results_dir() / "sglang.log"
    if subprocess.run(["bash", str(ROOT / "setup.sh")], check=False).returncode != 0:
        raise SystemExit(2)  # setup.sh has said why
    args = sglang_command()
    print(f"starting SGLang with QED-Nano (a few minutes; its log: {log})", file=sys.stderr)
    with open(log, "ab") as output:
        process = subprocess.Popen(args, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield _wait_for(process, log)
    finally:
        stop(process)


def _wait_for(process: "subprocess.Popen[bytes]", log: Path) -> Server:
    deadline = time.monotonic() + SGLANG_START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            last = next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "no output")
            raise UserError(f"SGLang ended with status {process.returncode}: {last[:200]}. Its log is {log}")
        if _is_healthy():
            server = probe(f"http://{HOST}:{PORT}/v1", "an NVIDIA GPU is here; SGLang was started for this run")
            if server is not None:
                return server
        time.sleep(1)
    raise UserError(f"SGLang did not answer within {SGLANG_START_SECONDS} s. Its log is {log}")


def _is_healthy() -> bool:
    """Whether the server on our port says that it is ready (a loading one answers 503 or not at all)."""
    try:
        with _opener(f"http://{HOST}").open(f"http://{HOST}:{PORT}/health", timeout=10) as reply:
            return bool(reply.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process group: asked first, killed after ten seconds."""
    for sign, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@lru_cache  # one run asks several times, for the model's name, its key and its results
def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(
            f"the embedded model {path} can't be read ({error.strerror}). Check out the repository again"
        ) from None


def main(extra: list[str]) -> None:
    """`bash scripts/start_server.sh`: the server a run would start, in the foreground until Ctrl-C."""
    check_environment()
    if _get(f"http://{HOST}:{PORT}/v1/models") is not None:
        raise UserError(f"a server answers on port {PORT} already. Stop it, or choose another PORT")
    if os.environ.get("ENGINE") != "embedded" and has_gpu():
        args = sglang_command(extra)
        print(" ".join(args).replace(API_KEY, "…") if API_KEY else " ".join(args), file=sys.stderr)
        os.execv(args[0], args)
    if extra:
        raise UserError(f"the embedded engine takes no flags: {' '.join(extra)}. They are for SGLang, on a GPU")
    with embedded(int(PORT)) as server:
        print(
            f"{server.model} on {server.base_url} ({server.version}, {EMBEDDED_SLOTS} slots of {EMBEDDED_CONTEXT} "
            "tokens). Ctrl-C stops it.",
            flush=True,
        )
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
