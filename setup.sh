#!/usr/bin/env bash
# Set up this checkout; run it as often as you like.
#   bash setup.sh            the harness; with an NVIDIA GPU also SGLang (in a venv of its own) and QED-Nano's weights
#   bash setup.sh vllm       the same with vLLM in SGLang's place (ENGINE=vllm)
#   bash setup.sh harness    the harness only (what scripts/run.sh calls)
#   bash setup.sh fleet      the harness and the gateway for several servers (scripts/slurm)
#   bash setup.sh inspect    the harness and inspect_ai (scripts/report.sh --inspect)
#   bash setup.sh train      what trains a model (scripts/finetune.py), in a venv of its own; where there is no GPU, have pip
#                            find torch's CPU build (requirements-train.txt)
#   bash setup.sh lean       the harness and Lean 4 without a library (labs/lean; x86-64 Linux)
#   bash setup.sh dev        the harness, the gateway, Lean and what the tests need
#   bash setup.sh engines    the same, and for a CPU vLLM, transformers serve and SGLang (scripts/test.sh engines; 5.5 GB)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/scripts/common.sh"
cd "$root"
what=${1:-all}
case $what in
  all | sglang) engine=sglang ;;
  vllm) engine=vllm ;;
  harness | fleet | inspect | train | lean | dev | engines) engine= ;;
  *) echo "error: setup.sh knows: sglang, vllm, harness, fleet, inspect, train, lean, dev, engines, or nothing at all" >&2; exit 2 ;;
esac

# sums FILE…: what the first line of a stamp holds.
sums() { cat "$@" | cksum; }

# Set up already, as nearly always: said by the stamp, and no Python is started to ask.
lock=locks/requirements.lock; [ -f "$lock" ] || lock=requirements.txt
if [ "$what" = harness ] && [ -x .venv/bin/python ] && [ -f .venv/.installed-requirements ] &&
  read -r stamped <.venv/.installed-requirements && [ "$stamped" = "$(sums requirements.txt "$lock")" ]; then exit 0; fi

python=${PYTHON:-}
for candidate in $python python3 python3.13 python3.12 python3.11; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
  python=
done
[ -n "$python" ] || { echo "error: Python 3.11 or newer is needed. Install it, or name it: PYTHON=/path/to/python3" >&2; exit 2; }

# What runs beside this script: ended with it, for what a script puts into the background does not hear Ctrl-C.
beside=()
trap 'kill "${beside[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cannot_make() {
  rm -rf "$1"; echo "error: $python can't make a venv. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2
}

version=$("$python" --version)
# asked VENV PART: what to install it from (`files`), and what its stamp then says (`want`). What shares .venv is installed
# on top of the harness.
asked() {
  local name=requirements${2:+-$2}
  files=()
  if [ "$1" = .venv ] && [ -n "$2" ]; then files+=(locks/requirements.lock); fi
  if [ -f "locks/$name.lock" ]; then files+=("locks/$name.lock"); else files+=("$name.txt"); fi
  want=$(sums "$name.txt" "${files[@]}"; echo "$version")
}

# has VENV PART: whether it is as its files ask for.
has() {
  asked "$@"
  [ "$(cat "$1/.installed-requirements${2:+-$2}" 2>/dev/null)" = "$want" ]
}

case $what in
  dev | engines) extras="fleet inspect lean dev" ;;
  fleet | inspect | lean) extras=$what ;;
  *) extras= ;;
esac
is_set_up() {
  local part
  if [ "$what" = train ]; then has .venv-train train; return; fi
  for part in "" $extras; do has .venv "$part" || return 1; done
}
# Where nothing is to be installed, nobody is waited for.
if [ "$what" != engines ] && { [ -z "$engine" ] || ! nvidia-smi -L >/dev/null 2>&1; } && is_set_up; then exit 0; fi

# install VENV PART: make the venv and bring it up to what requirements[-PART].txt asks for, from the lock with hashes where
# there is one; nothing to do when neither has changed.
install() {
  if has "$1" "${2:-}"; then return; fi
  local venv=$1 name=requirements${2:+-$2}
  local lock=locks/$name.lock stamp=$venv/.installed-$name
  local size="about 700 MB on disk, 1 to 3 minutes"
  case ${2:-} in
    sglang | vllm | engines) size="several GB, 5 to 30 minutes" ;;
    train) size="1.5 GB with torch for the CPU, 7 GB with CUDA; 1 to 10 minutes" ;;
    lean) size="240 MB more, half a minute" ;;
    fleet | inspect | dev) size="100 to 300 MB more, about a minute" ;;
  esac
  echo "setting up $venv from ${files[*]} (once; $size) …" >&2
  [ -x "$venv/bin/python" ] || "$python" -m venv --without-pip "$venv" || cannot_make "$venv"
  # To get its own pip takes a venv 8 s. Where its Python has a pip (22.3 or newer), that one installs meanwhile.
  local pip=("$venv/bin/python" -m pip) own=
  if [ ! -x "$venv/bin/pip" ]; then
    if "$python" -m pip --python "$python" --version >/dev/null 2>&1; then
      pip=("$python" -m pip --python "$venv/bin/python")
      { "$venv/bin/python" -m ensurepip --default-pip >/dev/null 2>&1 || true; } 9>&- &
      own=$! beside+=($!)
    else
      "$venv/bin/python" -m ensurepip --default-pip >/dev/null || cannot_make "$venv"
    fi
  fi
  local options=(--disable-pip-version-check --no-compile) parts=() part pips=()
  if [ -f "$lock" ]; then
    # A lock has all that is needed: nothing to work out. And two pips at once, each with half of the packages, need little
    # more than half of the time: one looks a package up, waits, unpacks it, and so on.
    options+=(--require-hashes --no-deps)
    for part in 0 1; do
      awk -v part=$part '/^[^ #]/ { new = !seen[$1]++; n += new } new && n % 2 == part' "${files[@]}" >"$venv/.part-$part"
      parts+=("-r $venv/.part-$part")
    done
  else
    parts=("${files[*]/#/-r }")
  fi
  # pip is silent while it unpacks. (Without the lock, which would outlast us with the last sleep.)
  while sleep 10 && kill -0 $$ 2>/dev/null; do echo "setting up $venv: $SECONDS s so far …" >&2; done 9>&- &
  local clock=$!
  beside+=("$clock")
  for part in "${parts[@]}"; do
    # Who watches sees one of them at work.
    if [ ! -t 2 ] || [ ${#pips[@]} -gt 0 ]; then options+=(--quiet); fi
    # shellcheck disable=SC2086  # words of ours: -r FILE
    "${pip[@]}" install "${options[@]}" $part >&2 &
    pips+=($!) beside+=($!)
  done
  for part in "${pips[@]}"; do
    wait "$part" || {
      echo "error: the packages of ${files[*]} could not be installed (see above). Check the network and the disk, run it again" >&2; exit 2; }
  done
  # For a first run, what a run imports; all of it would take as long as the rest of the set-up. Where Python may write no
  # bytecode (PYTHONDONTWRITEBYTECODE), it would compile anew at every start.
  local imports=
  case ${2:-$what} in
    harness) imports="core.session.run, core.generate.wire, core.grading.judge, xllamacpp" ;;
    train) imports="labs.training.sft, peft, trl.trainer.sft_trainer" ;;
  esac
  if [ -n "$imports" ]; then
    env -u PYTHONDONTWRITEBYTECODE PYTHONPATH="$root" "$venv/bin/python" -c "import $imports" >/dev/null 2>&1 || true
  else
    "$venv/bin/python" -m compileall -q -q -j 0 "$venv"/lib/python*/site-packages || true
  fi
  [ -z "$own" ] || wait "$own"
  kill "$clock"
  beside=()
  rm -f "$venv"/.part-?
  printf '%s\n' "$want" >"$stamp"
}

# One set-up at a time: run.sh and start_server.sh may both be started on a fresh clone.
if command -v flock >/dev/null; then
  exec 9>.venv.lock
  flock --nonblock 9 || {
    echo "another terminal is setting up this checkout; waiting for it …" >&2
    until flock --wait 10 9; do echo "still waiting: $SECONDS s so far …" >&2; done
    if is_set_up; then sleep 5; fi  # who set it up goes first: of two runs of one experiment, the later is refused
  }
fi

# room GB WHAT: ends where this disk has less.
room() {
  local free
  free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
  [ "$free" -ge "$1" ] || { echo "error: $2 $1 GB and this disk has $free GB free. Make room" >&2; exit 2; }
}

# sglang_cpu: SGLang for tests on a CPU, for which it has no build: of its lock all but what is for GPUs, and torch's CPU
# build. What it imports beyond that, tests/real/standins makes up.
sglang_cpu() {
  local venv=.venv-sglang-cpu want pip
  local gpus='^(nvidia|cuda|nccl|nvshmem|torch|flash|sgl-|sglang-kernel|smg|humming|quack|kernels|tilelang|timm|tml|decord|av=|deepseek|numba|llvmlite|z3|cutlass)'
  want=$(sums locks/requirements-sglang.lock requirements-engines.txt setup.sh)
  [ -f "$venv/.installed" ] && [ "$(cat "$venv/.installed")" = "$want" ] && return
  echo "setting up $venv from locks/requirements-sglang.lock (once; 2 GB, 1 to 5 minutes) …" >&2
  "$python" -m venv "$venv" || cannot_make "$venv"
  awk -v gpus="$gpus" '/^[^ #]/ { keep = $1 !~ gpus } keep' locks/requirements-sglang.lock >"$venv/.part"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps)
  { "${pip[@]}" --require-hashes -r "$venv/.part" && "${pip[@]}" "$(grep '^torch==' requirements-engines.txt)"; } >&2 || {
    echo "error: SGLang could not be installed for a CPU (see above). Check the network and the disk, run it again" >&2; exit 2; }
  printf '%s\n' "$want" >"$venv/.installed"
}

if [ "$what" = train ]; then
  gb=3; if nvidia-smi -L >/dev/null 2>&1; then gb=10; fi
  [ -f .venv-train/.installed-requirements-train ] || room "$gb" "what trains a model needs"
  install .venv-train train
  exit 0
fi
for part in "" $extras; do install .venv "$part"; done
if [ "$what" = engines ]; then
  install .venv-vllm-cpu engines
  # Builds for CUDA that come along and break the import of transformers; nothing here needs them.
  .venv-vllm-cpu/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec 2>/dev/null
  # vLLM looks for "cpu" in the version of a package "vllm", and the CPU build has another name.
  for info in .venv-vllm-cpu/lib/python*/site-packages/vllm_cpu-*.dist-info; do
    version=${info##*/vllm_cpu-}; version=${version%.dist-info}
    own=${info%/*}/vllm-$version+cpu.dist-info
    mkdir -p "$own"
    sed -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $version+cpu/" "$info/METADATA" >"$own/METADATA"
  done
  sglang_cpu
fi

if [ -n "$engine" ] && nvidia-smi -L >/dev/null 2>&1; then
  own=$(tr '[:lower:]' '[:upper:]' <<<"$engine")_PYTHON
  if [ -n "${!own:-}" ] || "$python" -c "import $engine" >/dev/null 2>&1; then
    echo "$engine: the one that ${!own:-$python} imports" >&2
  else
    room 20 "$engine and the weights need"
    install ".venv-$engine" "$engine"
  fi
  [ -d "${MODEL:-}" ] || PYTHONPATH=$PWD .venv/bin/python -m core.engines.weights
fi
