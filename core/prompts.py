"""The prompts to solve, aggregate and verify, in our own words. Aggregation is from RSA (arXiv
2509.26626).

Each prompt has two texts: one for boxed answers and one for proofs. Functions such as `solve`
return the messages of a request. Results record the prompts' hash, `prompts_sha256()`. A change to
a prompt changes its requests' journal keys.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.constants import Carrying, Forced, Sampled
from core.grading.kinds import kind_of
from core.types import (
    CHARACTERS,
    FORCED_ANSWER,
    FORCED_PROOF,
    Completion,
    Message,
    Problem,
    Sampling,
    Wording,
)

_ALTERNATIVES = re.compile(r"<([^<|>]*)\|([^<|>]*)>")


def worded(text: str) -> Wording:
    """Return the two wordings of a prompt. They differ in places such as <solution|proof>."""
    return Wording(_ALTERNATIVES.sub(r"\1", text), _ALTERNATIVES.sub(r"\2", text))


SOLVE = worded("""{problem}

<Reason step by step and {form}|Write a complete and rigorous proof. Give a reason for every step \
that is not well known, treat all cases, and prove what you claim rather than say that it is \
clear. Where something is missing in the end, say so.>""")

AGGREGATE = worded("""Problem:
{problem}

Below are {count} candidate <solutions. Some may be wrong|proofs. Some may have errors or gaps>, \
in different places; none is known to be right.

{candidates}

<Compare the candidates step by step, keep what is correct, repair what is not, and write one \
improved, complete solution. {Form}|Go through the candidates step by step and tell what each has \
proved from what it only claims. Keep the arguments that hold, repair the others or find new ones, \
and write one complete and rigorous proof that can be read without the candidates.>""")

# One candidate (if K = 1, or if only one has text) is refined instead. K = 1 is a control of the
# RSA paper.
REFINE = worded("""Problem:
{problem}

Below is 1 candidate <solution. It may be wrong|proof. It may have errors or gaps>.

{candidates}

Check the candidate step by step<, keep what is correct, repair what is not, and write one \
improved, complete solution. {Form}| and tell what it has proved from what it only claims. Keep \
the arguments that hold, repair the others or find new ones, and write one complete and rigorous \
proof that can be read without the candidate.>""")

VERIFY = worded("""Problem:
{problem}

Candidate <solution|proof>:
{candidate}

Check every step of the candidate <solution and decide whether its final answer is correct|proof \
and decide whether it proves all that the problem asks for, without an error or a serious gap>. \
End with one line: "Verdict: True" or "Verdict: False".""")

# The beginning of a verdict. It opens the reply for P(True), and the verdict after thinking that
# was cut off.
VERDICT = "Verdict:"

_BOXED_PROBLEM = Problem("", "", None)


def request(wording: Wording | str, problem: Problem, **texts: Any) -> list[Message]:
    """Build the messages of one request from a prompt, the problem and the `texts` that it
    shows."""
    template = wording if isinstance(wording, str) else wording.text_for(problem.is_proof)
    content = template.format(problem=problem.statement, **forms(problem), **texts)
    return [{"role": "user", "content": content}]


def forms(problem: Problem) -> dict[str, str]:
    """Return the texts of {form} and {Form} in a prompt: how a reply has to state its answer, by
    the kind of answer (core/grading/kinds) and the constant ANSWER. {Form} begins a sentence."""
    form = kind_of(problem).form(problem.answer_form)
    return {"form": form, "Form": form[0].upper() + form[1:]}


class Request(list[Message]):
    """The messages of a request for a solution: from the problem alone, or from `candidates`. The
    prompt `single` is for one candidate and `several` for more. harness/framing.py builds other
    messages from these parts."""

    def __init__(
        self, several: Wording, single: Wording, problem: Problem, candidates: Sequence[str] = ()
    ) -> None:
        self.several = several
        self.single = single
        self.problem = problem
        self.candidates = candidates
        self.candidates_text = "\n\n".join(
            f"Candidate {i}:\n{text.strip()}" for i, text in enumerate(candidates, 1)
        )
        wording = single if len(candidates) == 1 else several
        messages = request(wording, problem, count=len(candidates), candidates=self.candidates_text)
        super().__init__(messages)


def solve(problem: Problem) -> Request:
    return Request(SOLVE, SOLVE, problem)


def aggregate(problem: Problem, candidates: Sequence[str]) -> Request:
    """Build a request for one better solution from `candidates`, which the prompt shows in the
    given order. Without candidates, build a request to solve the problem."""
    if not candidates:
        return solve(problem)
    return Request(AGGREGATE, REFINE, problem, candidates)


def verify(problem: Problem, candidate: str) -> list[Message]:
    """Build a request to verify `candidate`, with a last line "Verdict: True" or "Verdict:
    False"."""
    return request(VERIFY, problem, candidate=candidate.strip())


def sampling_for(problem: Problem, config: Sampled) -> Sampling:
    """Return the sampling parameters for a solution of a problem, from an experiment's constants.
    The problem's kind decides how a forced answer begins, and (if ELICIT=1) what an answer is."""
    kind = kind_of(problem)
    sampling = Sampling.from_config(config, kind.is_proof)
    if kind.is_proof:
        return sampling
    if sampling.answer_tokens:
        opening = kind.opening(FORCED_ANSWER, problem.answer_form)
        sampling = replace(sampling, answer_opening=opening)
    if isinstance(config, Forced) and config.ELICIT:
        sampling = replace(sampling, elicit=problem.form_and_type)
    return sampling


def prompts_sha256(prompts: Sequence[str | Wording], is_proof: bool = False) -> str:
    """Return the SHA-256 of the texts for proofs (`is_proof`) or answers, including the opening of
    a forced answer. The hash is the same for each value of ANSWER."""
    texts = [prompt if isinstance(prompt, str) else prompt.text_for(is_proof) for prompt in prompts]
    for name, form in forms(_BOXED_PROBLEM).items():
        escaped = form.replace("{}", "{{}}")  # as in a template
        texts = [text.replace(f"{{{name}}}", escaped) for text in texts]
    texts.append(FORCED_PROOF if is_proof else FORCED_ANSWER)
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def carried(completion: Completion, config: Carrying) -> str:
    """Return the part of a candidate that other requests see. CARRY="answer" selects the text after
    thinking, "full" all text, and "tail" the last CARRY_TOKENS tokens, estimated by the
    completion's characters per token. With "summary" the model summarises all text."""
    if config.CARRY == "answer":
        return completion.text
    text = f"{completion.thinking}\n\n{completion.text}".strip()
    tokens = completion.completion_tokens or len(text) // CHARACTERS
    if config.CARRY != "tail" or tokens <= config.CARRY_TOKENS:
        return text
    characters = len(text) * config.CARRY_TOKENS // tokens
    return text[-max(1, characters) :]
