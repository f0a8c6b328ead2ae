#!/usr/bin/env bash
# Start the server that a run would start, in the foreground, on port 30000 (PORT=… for another). Ctrl-C stops it.
#   bash scripts/start_server.sh [K=3 MAX_TOKENS=16384 …] [flags]
# With an NVIDIA GPU: SGLang with QED-Nano (ENGINE=vllm for vLLM), for runs with these constants. It gets all further flags.
# MODEL=file.gguf: llama.cpp with a GGUF file, on any machine (see scripts/to_gguf.sh). Otherwise: the embedded engine and
# model.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
module=core.engines.start
engine=${ENGINE:-}
[[ -z $engine && ${MODEL:-} = *.gguf ]] && engine=llamacpp
case ${engine:-sglang} in
  sglang | vllm) bash "$root/setup.sh" "${engine:-sglang}" ;;
  *) bash "$root/setup.sh" harness ;;
esac
run "$@"
