"""Ask SGLang's engine offline for a run's completions again, and compare the time with the run's.

    .venv-sglang/bin/python benchmarks/engine_offline.py RESULTS.json FLAGS

FLAGS are those with which the run started SGLang (the run prints them). The engine runs in this
process, without HTTP, and gets the prompts of one step at once, as tokens. Each request writes as
many tokens as it wrote in the run. So this is the time of the engine alone. A run also sends
requests, reads streams, and asks again for answers that the token cap cut off. The last line has
tokens/s of both, and their ratio. The run's scaffold must have steps, as RSA has."""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sglang
from sglang.srt.server_args import ServerArgs
from transformers import AutoTokenizer

WARM_UP = 16  # tokens


def steps_of(path: Path) -> Iterator[tuple[list[Any], list[int]]]:
    """Yield the messages and the numbers of completion tokens of each step of a run."""
    document = json.loads(path.read_text(encoding="utf-8"))
    with open(path.parent / "journal" / f"{path.stem}.jsonl", encoding="utf-8") as journal:
        records = {
            record["key"]: record for record in map(json.loads, journal) if "completion" in record
        }
    for step in zip(*(problem["steps"] for problem in document["problems"]), strict=True):
        found = [records[member["key"]] for problem in step for member in problem["members"]]
        yield (
            [each["messages"] for each in found],
            [each["completion"]["completion_tokens"] for each in found],
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    ServerArgs.add_cli_args(parser)
    args = parser.parse_args()
    run = json.loads(args.results.read_text(encoding="utf-8"))["metrics"]
    tokenizer = AutoTokenizer.from_pretrained(args.model_path)
    engine = sglang.Engine(server_args=ServerArgs.from_cli_args(args))
    seconds = 0.0
    for step, (messages, lengths) in enumerate(steps_of(args.results)):
        prompts = [
            tokenizer.apply_chat_template(
                each, tokenize=True, add_generation_prompt=True, return_dict=False
            )
            for each in messages
        ]
        if not step:
            engine.generate(
                input_ids=prompts[:1],
                sampling_params={"max_new_tokens": WARM_UP, "ignore_eos": True},
            )
        wanted = [{"max_new_tokens": length, "ignore_eos": True} for length in lengths]
        began = time.monotonic()
        engine.generate(input_ids=prompts, sampling_params=wanted)
        took = time.monotonic() - began
        seconds += took
        print(
            f"t={step}: {len(prompts)} requests, {sum(map(len, prompts)):,} + {sum(lengths):,} "
            f"tokens, {took:.1f} s"
        )
    engine.shutdown()
    tokens = run["tokens"]["completion"]
    print(
        f"{tokens:,} tokens: the run took {run['seconds']:.1f} s ({tokens / run['seconds']:,.0f} "
        f"tokens/s), the engine alone {seconds:.1f} s ({tokens / seconds:,.0f} tokens/s). Ratio "
        f"{seconds / run['seconds']:.3f}"
    )


if __name__ == "__main__":
    main()
