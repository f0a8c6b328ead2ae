"""The settings of servers in the environment, each read here and nowhere else (RESULTS_DIR: core/files.py).

They are read when they are used, never at import, and without the blanks around them: a key that was read from a file
often ends in a newline.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from core.engines.server import is_local
from core.engines.shape import KV_BYTES
from core.errors import UserError
from core.files import ROOT

PORT = 30000  # where nothing else is said
ENGINES = ("sglang", "vllm", "llamacpp", "embedded")


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


def check() -> None:
    """Raises UserError for settings that cannot be meant."""
    engine()
    port()
    api_key()
    if not api_key() and not is_local(f"http://{host()}"):
        raise UserError(f"BIND={host()} opens the server to the network. Set API_KEY, which requests must then carry")


# Where servers listen, and which one is asked for


def host() -> str:
    """The address that our servers listen on: BIND, else this machine alone."""
    return _value("BIND") or "127.0.0.1"


def port() -> int:
    """The port that our server listens on, and where a run looks for one: PORT, else 30000. Raises UserError."""
    named = os.environ.get("PORT", str(PORT))
    if not named.isascii() or not named.isdigit() or not 0 < int(named) < 65536:
        raise UserError(f"PORT={named} is not a port. Give a number from 1 to 65535")
    return int(named)


def api_key() -> str:
    """The key that our servers ask for, and that requests carry; "" where there is none. Raises UserError."""
    key = _value("API_KEY")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserError("API_KEY holds a character that no key has (it is not shown here). Set it again")
    return key


def base_url() -> str:
    """The address of the server to use; "" where none is named."""
    return _value("BASE_URL")


def grader() -> tuple[str, str, str]:
    """Address, model and key of a grader's own server; "" for what is not set. Our API_KEY is not sent there."""
    return _value("GRADER_URL"), _value("GRADER_MODEL"), _value("GRADER_KEY")


def engine() -> str:
    """The engine that ENGINE asks for; "" where the best is taken. Raises UserError."""
    named = _value("ENGINE").lower()
    if named and named not in ENGINES:
        raise UserError(f"ENGINE={named} is not known. There are: {', '.join(ENGINES)}; unset, the best is taken")
    return named


# MODEL: a path that exists here is of weights to serve, anything else the name of a model on a server. With BASE_URL
# nothing is served here, and a path is a name too: vLLM and SGLang call a model so where they are given no other.


def model() -> str:
    """What MODEL says; "" where it is unset."""
    return _value("MODEL")


def served_model() -> str:
    """The name that MODEL gives to the model on a server; "" where it gives none."""
    return "" if _is_weights() and not base_url() else model()


def _is_weights() -> bool:
    return bool(model()) and Path(model()).exists()


# The weights, and how they are served


def weights_folder() -> Path | None:
    """The folder of downloaded weights that WEIGHTS_DIR names; None where it names none."""
    named = _value("WEIGHTS_DIR")
    return Path(os.path.expanduser(named)) if named else None


def weights_revision() -> str:
    """The commit (or branch) of QED-Nano that QED_NANO_REVISION names; "" where it names none."""
    return _value("QED_NANO_REVISION")


def kv_cache() -> str:
    """The type of KV cache that KV asks for; "" where it asks for none. Raises UserError."""
    kv = _value("KV").lower()
    if kv and kv not in KV_BYTES:
        raise UserError(f"KV={kv} is not a type of KV cache. There are: {', '.join(KV_BYTES)}")
    return kv


def is_deterministic() -> bool:
    """Whether DETERMINISTIC asks for an engine that honours seeds. Raises UserError."""
    wanted = _value("DETERMINISTIC")
    if wanted not in ("", "0", "1"):
        raise UserError(f"DETERMINISTIC={wanted} is neither 1 (SGLang honours seeds) nor 0")
    return wanted == "1"


def python(engine: str) -> str | None:
    """The interpreter that SGLANG_PYTHON (or VLLM_PYTHON) names; None where it is unset."""
    return os.environ.get(f"{engine.upper()}_PYTHON")


def wanted_gpus() -> str:
    """The indices of the GPUs that a fleet is to serve on ("0,2"): GPUS; "" where all are meant."""
    return _value("GPUS")


def visible_gpus() -> str:
    """The same of all that CUDA runs here: CUDA_VISIBLE_DEVICES."""
    return _value("CUDA_VISIBLE_DEVICES")


# The environment of this process and of those that it starts


def with_changes(changes: Mapping[str, str]) -> dict[str, str]:
    """For a process that runs a module of this project."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))  # ours first
    return {**os.environ, **changes, "PYTHONPATH": path}


def behind_gateway(root: str, hosts: Iterable[str]) -> dict[str, str]:
    """For a command behind the gateway at `root`, whose servers run on `hosts`: it asks those what they are, through no
    proxy. A path in MODEL is of what they serve; they call it by another name."""
    direct = ",".join(filter(None, [os.environ.get("no_proxy"), *sorted(hosts)]))
    kept = {name: value for name, value in os.environ.items() if name != "MODEL" or not _is_weights()}
    return kept | {"BASE_URL": f"{root}/v1", "no_proxy": direct, "NO_PROXY": direct}


def forget_proxies() -> None:
    """A proxy is for the world outside, not for our servers; the gateway knows no NO_PROXY=*."""
    for name in [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]:
        del os.environ[name]


def let_openmp_sleep() -> None:
    """To be called before llama.cpp is imported: OpenMP threads that spin on busy cores bring it down from 1,400 to
    3-13 tokens/s."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
