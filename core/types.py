"""The vocabulary: what a problem, a completion, a population, a scaffold and a grader are. Everybody speaks it, and it
knows nobody but the constants.

Problem × scaffold × grader: a scaffold asks a model about a problem and yields populations of candidates; a grader says
what a candidate is worth.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, runtime_checkable

from core.constants import A, Carrying, Forced, Sampled, Waiting

Message = dict[str, str]  # "role" and "content", as OpenAI's clients have it

# What closes thinking and opens the answer when a completion hit the cap while still thinking (budget forcing).
FORCED_ANSWER = "Time is up. The final answer is \\boxed{"
FORCED_PROOF = "Time is up. This is the proof, as far as it goes:"
# How servers name the end of a reply, in lower case and without details ("content_filter: SAFETY"), and what it means.
CUT, FILTERED, BROKEN = "length", "content_filter", "error"
ENDS = {
    **dict.fromkeys(("length", "max_length", "max_tokens", "max_output_tokens", "model_length", "pause_turn"), CUT),
    **dict.fromkeys(("model_context_window_exceeded",), CUT),
    **dict.fromkeys(("content_filter", "content_filtered", "safety", "image_safety", "recitation"), FILTERED),
    **dict.fromkeys(
        ("refusal", "prohibited_content", "blocklist", "spii", "sensitive", "guardrail_intervened"), FILTERED
    ),
    **dict.fromkeys(
        ("error", "abort", "cancelled", "timeout", "network_error", "insufficient_system_resource"), BROKEN
    ),
}
PROOF = "proof"  # the answer_type of a problem that asks for one
ANSWERS, PROOFS, EITHER = "answers", "proofs", "either"  # what a grader takes
MAX_POINTS = 7  # of a proof, as at olympiads
GOOD = 6  # points from which a proof is right but for slips
MAX_ANSWER_CHARS = 1000  # a longer text is no answer
WAIT = "Wait"  # what opens thinking again that has ended
CHARACTERS = 3  # of a token, about, where the server counts none


def end_of(finish_reason: str | None) -> str:
    """Return CUT, FILTERED or BROKEN, or "" if the reply ended in another way."""
    return ENDS.get((finish_reason or "").partition(":")[0].strip().lower().rpartition(".")[2].replace("-", "_"), "")


def are_messages(value: Any) -> bool:
    """Whether `value`, whoever made it, is a sequence of messages."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(
            isinstance(each, Mapping) and all(isinstance(each.get(name), str) for name in ("role", "content"))
            for each in value
        )
    )


@dataclass(frozen=True)
class Problem:
    """One problem. `answer` is the reference, as text, None where there is none; `answer_type` says what is asked for
    and how it is judged (core/grading): "integer" is AIME's 0-999, "math" anything that core/grading/equality.py can
    compare, "proof" a proof, worth points. `columns`: its row in the data set as it was read, under the names it has
    there.

    Texts for graders, "" where there are none: a reference `solution`; `guidelines` that say what earns points
    (IMO-ProofBench); a `grading_scheme` that says what each step earns (ProofBench). `split`: its part of the set."""

    id: str
    statement: str
    answer: str | None
    answer_type: str = "integer"
    columns: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    solution: str = ""
    guidelines: str = ""
    grading_scheme: str = ""
    split: str = ""

    @property
    def is_proof(self) -> bool:
        """Whether a proof is asked for: nobody votes on it, and it states no answer."""
        return self.answer_type == PROOF


@dataclass(frozen=True)
class Wording:
    """A prompt, in the words for each kind of problem: one that has an answer, and one that asks for a proof."""

    answer: str
    proof: str

    def of(self, is_proof: bool) -> str:
        return self.proof if is_proof else self.answer


@dataclass(frozen=True)
class Sampling:
    """How one completion is drawn. Tokens are counted by the server; 0 turns top_k, min_p and answer_tokens off."""

    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 16384
    answer_tokens: int = 0  # budget forcing: tokens for the answer when the cap is hit while thinking
    answer_opening: str = FORCED_ANSWER  # the words a forced answer starts with
    opening: str = ""  # thinking is closed at once and the answer starts with this text
    top_logprobs: int = 0  # alternatives to report for the first answer token; only together with `opening`
    waits: int = 0  # times that thinking which ended is gone on with, at most
    wait_word: str = WAIT  # behind this
    stop: str = ""  # a text at which the server ends the completion, which does not hold it; "" is off
    sum_logprobs: bool = False  # whether Completion.logprob is wanted

    @classmethod
    def of(cls, config: Sampled, is_proof: bool = False) -> "Sampling":
        """A solution's, or a proof's, as an experiment's constants have it."""
        waits = config.WAITS if isinstance(config, Waiting) else 0
        return cls(
            temperature=config.TEMPERATURE,
            top_p=config.TOP_P,
            top_k=config.TOP_K,
            min_p=config.MIN_P,
            max_tokens=config.MAX_TOKENS,
            answer_tokens=config.ANSWER_TOKENS if isinstance(config, Forced) else 0,  # if thinking was cut off
            answer_opening=FORCED_PROOF if is_proof else FORCED_ANSWER,
            waits=waits,
            wait_word=config.WAIT_WORD if isinstance(config, Waiting) and waits else WAIT,
        )

    @property
    def with_one_wait_less(self) -> "Sampling":
        """The word says nothing without a wait, and must not tell completions apart then."""
        return replace(self, waits=self.waits - 1, wait_word=self.wait_word if self.waits > 1 else WAIT)


@dataclass(frozen=True)
class Completion:
    """What came back for one request. A truncated, empty or failed completion is data, never passed off as wrong.

    `answer` is the text after thinking as the model left it; `forced` what it stated when thinking was closed for it
    at the cap (None: not forced). `before_waits`: its answers before each wait, and `tokens_before_waits` what they had
    taken, in completion tokens. Token counts include all of that, and are 0 where nobody has counted: see `counted`.
    `seconds` is wall time, waiting included.

    `logprob` is the sum over the tokens of the whole reply, those of thinking and, where the server lists it, the one
    that ends the reply included: how likely the model was to write this. llama.cpp and vLLM give the model's own
    probabilities, whatever the temperature; SGLang those that were sampled from. None also where the reply is no single
    piece of the model's (forced answers, waits), or where probabilities of some of its tokens are missing.
    """

    key: str
    seed: int
    thinking: str = ""
    answer: str = ""
    forced: str | None = None
    finish_reason: str | None = None  # "stop", "length", … as the server says; None when it failed
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str | None = None
    not_forced: str | None = None  # why an answer that should have been opened for the model was not
    before_waits: list[str] = field(default_factory=list)
    tokens_before_waits: list[int] = field(default_factory=list)
    not_waited: str | None = None  # why thinking that should have gone on did not
    logprobs: dict[str, float] = field(default_factory=dict)  # first token -> natural log of its probability
    logprob: float | None = None  # of all that the model wrote, natural; None: not asked for, or not given
    origin: str = field(default="", compare=False)  # who answered (Server.origin); "" where that was not recorded
    model: str = field(default="", compare=False)  # the name in the server's reply; "" if it gave none
    reused: bool = field(default=False, compare=False)  # it came from the journal, which does not hold this

    @property
    def text(self) -> str:
        """The answer to go on with: the forced one where there is one."""
        return self.answer if self.forced is None else self.forced

    @property
    def truncated(self) -> bool:
        return end_of(self.finish_reason) == CUT

    @property
    def filtered(self) -> bool:
        """A filter of the server's ended it."""
        return end_of(self.finish_reason) == FILTERED

    @property
    def empty(self) -> bool:
        """The server says that it is done, and has said nothing."""
        return not (self.error or self.truncated or self.filtered or self.thinking.strip() or self.text.strip())

    @property
    def counted(self) -> tuple[int | None, int | None, int | None]:
        """Prompt, cached and completion tokens, None where the server reports none: no prompt takes 0, nor does a reply
        that says something. A failed request took none that we know of."""
        prompt = self.prompt_tokens if self.prompt_tokens or self.error else None
        cached = None if prompt is None else self.cached_tokens
        is_silent = prompt is not None and not (self.thinking or self.text)
        return prompt, cached, self.completion_tokens if self.completion_tokens or is_silent else None


class Ask(Protocol):
    """A function that asks the model, under a name of its own for every request of a problem. `changes`: fields of
    Sampling."""

    async def __call__(self, messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion: ...


@dataclass
class Member:
    """One solution of a population: its completion, the members of the last step it was made from, and, where
    verification was asked for, its score in [0, 1] (None: no readable verdict) and the single verdicts.

    `side_calls`: completions that were spent on it and are no candidates (verifications, selections, summaries,
    plans). `carried_over`: it stood in an earlier population of this problem, where its own tokens were counted.
    `notes`: what went wrong and was handled on purpose, in the same few words each time ("invalid selection"); results
    count them.
    """

    completion: Completion
    parents: list[int] = field(default_factory=list)
    self_score: float | None = None
    verdicts: list[float | None] | None = None
    side_calls: list[Completion] = field(default_factory=list)
    carried_over: bool = False
    notes: list[str] = field(default_factory=list)


Population = list[Member]


class Stage(Population):
    """A population of which its number does not say what it is: `name` does, in a word or two ("reviews")."""

    def __init__(self, name: str, members: Iterable[Member]) -> None:
        super().__init__(members)
        self.name = name


def carried(completion: Completion, config: Carrying) -> str:
    """What others see of a candidate: CARRY = "answer" (after thinking), "tail" (the last CARRY_TOKENS tokens
    of thinking and answer) or "full". Tokens are cut by the completion's own characters per token, where they are
    known."""
    if config.CARRY == "answer":
        return completion.text
    whole = f"{completion.thinking}\n\n{completion.text}".strip()
    tokens = completion.completion_tokens or len(whole) // CHARACTERS
    if config.CARRY == "full" or tokens <= config.CARRY_TOKENS:
        return whole
    return whole[-max(1, len(whole) * config.CARRY_TOKENS // tokens) :]


@runtime_checkable
class Planned(Protocol):
    """What an experiment runs, and plan.sh plans: a scaffold, a comparison of several, or a lab's task."""

    @property
    def constants(self) -> type[Any]: ...


@runtime_checkable
class Bounded(Planned, Protocol):
    """A scaffold, or a comparison of several: what asks about one problem after the other."""

    @property
    def max_completions(self) -> Callable[[Any], int]: ...
    @property
    def texts_shown(self) -> Callable[[Any], int]: ...


@dataclass(frozen=True)
class Scaffold(Generic[A]):
    """A way to spend test-time compute on a problem, with all that others have to know of it.

    `run(problem, ask, config)` is an async generator of populations; `constants` the class of `config`.
    `max_completions(config)` is the most completions that one problem takes, `texts_shown(config)` the most texts
    (candidates, reports, summaries) that one prompt shows, for the server's context. `prompts`: the templates of all
    that it asks, which are hashed into the results. `for_proofs`: of one that needs answers to compare, the SCAFFOLD to
    take for proofs in its place; "" of one that takes either. `roles`: the requests that not every model has learnt to
    answer, in the words of model cards (not_learnt).
    """

    run: Callable[[Problem, Ask, A], AsyncIterator[Population]]
    max_completions: Callable[[A], int]
    texts_shown: Callable[[A], int]
    prompts: tuple[str | Wording, ...]
    constants: type[A]
    for_proofs: str = ""
    roles: str = ""


@dataclass(frozen=True)
class Grade:
    """What a candidate is worth: `value` in [0, 1], 1 is right; None: nobody has graded it. `answer`: what was graded,
    as text; `doubt`: why it may be wrong or missing, in a word; `reason`: the grader's own words. `is_undecided`:
    there was no verdict, which counts as 0. `unforced`: the grade of the candidate's own words where its answer was
    forced. `before_waits`: the grades of its answers before each wait. `side_calls`: completions that the grading
    took."""

    value: float | None
    answer: str | None = None
    doubt: str | None = None
    reason: str = ""
    is_undecided: bool = False
    unforced: "Grade | None" = None
    before_waits: "tuple[Grade, ...]" = ()
    side_calls: tuple[Completion, ...] = ()


@dataclass(frozen=True)
class Graded:
    """A population's grades, in order, and what it says as a whole: its vote where there is one (`groups`: by member
    the rank of the answers that say the same, 0 the commonest; None: no answer). `score`, in [0, 1]: of the answer
    voted for, ties at their mean; without a vote, the mean grade, which is what a fair draw is worth; None without
    grades. `undecided_pairs`: of answers that could not be compared."""

    grades: list[Grade]
    score: float | None
    answer: str | None = None
    tied: tuple[str, ...] = ()
    groups: tuple[int | None, ...] = ()
    undecided_pairs: int = 0


class Grader(Protocol):
    """Grade a population. `ask` reaches a model, the run's own or that of a second server, under names of its own."""

    async def __call__(self, problem: Problem, population: Population, ask: Ask) -> Graded: ...
