"""Define the common types: problem, completion, population, scaffold and grader. A scaffold asks a
model about a problem and yields populations of candidates. A grader grades the candidates."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, runtime_checkable

from core.constants import BOXED, A, Forced, Sampled, Waiting

Message = dict[str, str]  # with "role" and "content", as in OpenAI's API
Messages = Sequence[Message]

# Budget forcing: the text that opens the answer after thinking was closed at the cap.
FORCED_ANSWER = "Time is up. The final answer is \\boxed{"
FORCED_PROOF = "Time is up. This is the proof, as far as it goes:"
# continues a reply that ended without an answer (ELICIT=1)
ELICITED_ANSWER = "Therefore, the answer is \\boxed{"
BOX = " \\boxed{"  # the end of these openings, which kinds of answers may replace
ELICITED_TOKENS = 32  # the token cap of an elicited answer if ANSWER_TOKENS is 0
# Meanings of the servers' finish reasons, in lower case and without details such as ": SAFETY".
CUT = "length"
FILTERED = "content_filter"
BROKEN = "error"
_REASONS = {
    CUT: "length max_length max_tokens max_output_tokens model_length pause_turn "
    "model_context_window_exceeded",
    FILTERED: "content_filter content_filtered safety image_safety recitation refusal "
    "prohibited_content blocklist spii sensitive guardrail_intervened",
    BROKEN: "error abort cancelled timeout network_error insufficient_system_resource",
}
UNSURE = "unsure"  # the finish reason of a stream that we ended (Sampling.least_confidence)
TOOL_CALL = "tool_calls"  # the finish reason of a reply that calls tools and has no text
PROOF = "proof"  # the answer_type of a problem that asks for a proof
ANSWERS = "answers"  # the kinds of problems that a grader accepts
PROOFS = "proofs"
EITHER = "either"
P_TRUE = "p_true"  # the value of SCORE for P(True)
CONFIDENCE = "confidence"  # the value of SCORE for the confidence of the solution's own tokens
REWARD = "reward"  # the value of SCORE for a reward model, the scorer
TOP_LOGPROBS = 20  # number of likely tokens to list, the most that servers return
SCORER = "scorer"  # the model at SCORER_URL, as a scaffold addresses it
MAX_POINTS = 7  # most points of a proof, as at olympiads
GOOD = 6  # the fewest points of a proof that is right except for slips
MAX_ANSWER_CHARS = 1000  # a longer text is not an answer
WAIT = "Wait"  # the default text that continues thinking
CHARACTERS = 3  # approximate characters per token, if the server counts no tokens


def end_of(finish_reason: str | None) -> str:
    """Return CUT, FILTERED or BROKEN, or "" if the reply ended in another way."""
    reason, _, _ = (finish_reason or "").partition(":")
    _, _, name = reason.strip().lower().rpartition(".")
    name = name.replace("-", "_")
    for end, reasons in _REASONS.items():
        if name in reasons.split():
            return end
    return ""


@dataclass(frozen=True)
class Problem:
    """A problem. `answer` is the reference answer as text, or None if there is none.

    `answer_type` names a kind of answer in core/grading/kinds: "math" (numbers and formulas,
    compared by value), "integer" (AIME's 0-999), "proof" and others. `details` has other needs of
    the kind, such as the options of a choice. `columns` is the row of the data set, with its own
    names. Graders use a reference `solution`, the `guidelines` for points (IMO-ProofBench), and a
    `grading_scheme` with the points of each step (ProofBench). Missing texts are "". `split` names
    a part of the data set. `answer_form` is the constant ANSWER of the run: how replies state their
    answer."""

    id: str
    statement: str
    answer: str | None
    answer_type: str = "math"
    columns: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    solution: str = ""
    guidelines: str = ""
    grading_scheme: str = ""
    split: str = ""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    answer_form: str = field(default=BOXED, compare=False)

    @property
    def form_and_type(self) -> str:
        """The way of reading (if it is not "boxed") and the answer type, as in Sampling.elicit."""
        if self.answer_form == BOXED:
            return self.answer_type
        return f"{self.answer_form} {self.answer_type}"

    @property
    def is_proof(self) -> bool:
        """True if the problem asks for a proof. A proof has no answer to vote on."""
        return self.answer_type == PROOF


@dataclass(frozen=True)
class Wording:
    """A prompt in two wordings, for problems with an answer and for proofs."""

    answer: str
    proof: str

    def text_for(self, is_proof: bool) -> str:
        return self.proof if is_proof else self.answer


@dataclass(frozen=True)
class Sampling:
    """The sampling parameters of one completion. For top_k, min_p, answer_tokens and waits, 0 means
    off."""

    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 16384
    answer_tokens: int = 0  # budget forcing: tokens for the answer if thinking hits the cap
    answer_opening: str = FORCED_ANSWER  # first words of a forced answer
    opening: str = ""  # closes thinking at once and starts the answer with this text
    top_logprobs: int = 0  # alternatives to report for the first answer token (only with `opening`)
    waits: int = 0  # most continuations of thinking that has ended
    wait_word: str = WAIT  # text that continues thinking
    stop: str = ""  # the server ends the completion before this text ("": off)
    sum_logprobs: bool = False  # sets Completion.logprob
    confidences: bool = False  # sets Completion.confidences
    least_confidence: float = 0.0  # ends a stream if the mean of a group is lower (0: off)
    group: int = 0  # consecutive tokens of such a group
    # asks a reward model for Completion.scores. This text separates the steps of a solution
    reward: str = ""
    # Problem.form_and_type. A reply without such an answer is continued once ("": off)
    elicit: str = ""

    @classmethod
    def from_config(cls, config: Sampled, is_proof: bool = False) -> "Sampling":
        """Return the sampling parameters for a text, or for a proof, from an experiment's constants
        (see sampling_for in core/prompts.py)."""
        sampling = cls(
            temperature=config.TEMPERATURE,
            top_p=config.TOP_P,
            top_k=config.TOP_K,
            min_p=config.MIN_P,
            max_tokens=config.MAX_TOKENS,
        )
        if isinstance(config, Waiting) and config.WAITS:
            sampling = replace(sampling, waits=config.WAITS, wait_word=config.WAIT_WORD)
        if isinstance(config, Forced) and config.ANSWER_TOKENS:
            sampling = replace(sampling, answer_tokens=config.ANSWER_TOKENS)
        return replace(sampling, answer_opening=FORCED_PROOF) if is_proof else sampling

    def with_changes(self, **changes: Any) -> "Sampling":
        """Return the parameters with `changes`. Requests with changes are side calls, so nothing is
        elicited. But confidences tell more about a solution."""
        if changes.keys() <= {"confidences", "least_confidence", "group"}:
            return replace(self, **changes)
        return replace(self, **{"elicit": "", **changes})

    @property
    def elicited_tokens(self) -> int:
        """The token cap of an elicited answer."""
        return self.answer_tokens or ELICITED_TOKENS

    @property
    def continued(self) -> "Sampling | None":
        """The parameters of the completion that this one continues: without ELICIT, or with one
        wait less. None if it continues none. Without waits, `wait_word` is the default, so journal
        keys omit it."""
        if self.elicit:
            return replace(self, elicit="")
        if not self.waits:
            return None
        waits = self.waits - 1
        return replace(self, waits=waits, wait_word=self.wait_word if waits else WAIT)


@dataclass(frozen=True)
class Completion:
    """A reply to one request. Truncated, empty and failed completions are recorded, and never
    silently count as wrong.

    `answer` is the text after thinking. `forced` is the answer after thinking was closed at the cap
    (None: not forced). If the reply ended by itself without an answer (ELICIT=1), `forced` is its
    `answer` with the elicited answer. `before_waits` contains the answers before each wait, and
    `tokens_before_waits` their completion tokens. Token counts include these answers and waits, and
    are 0 if unknown (see `counted`). `seconds` is wall-clock time.

    `logprob` sums the natural log-probabilities of all tokens of the reply: thinking, answer and,
    if listed, the end token. SGLang's values include the temperature, but values of llama.cpp and
    vLLM do not. `logprob` is None if it was not requested, if a token lacks a log-probability, or
    if the reply has several pieces (forced answers, waits).

    `confidences` has the confidence in nats of each listed token of all pieces, thinking included
    (core/client/logprobs.py). It is empty if not requested, or if a piece lists none."""

    key: str
    seed: int
    thinking: str = ""
    answer: str = ""
    forced: str | None = None
    finish_reason: str | None = None  # "stop", "length", … from the server, or None after an error
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str | None = None
    not_forced: str | None = None  # the reason if an answer could not be forced
    before_waits: list[str] = field(default_factory=list)
    tokens_before_waits: list[int] = field(default_factory=list)
    not_waited: str | None = None  # the reason if thinking could not be continued
    # first answer token -> natural log-probability
    logprobs: dict[str, float] = field(default_factory=dict)
    logprob: float | None = None
    confidences: list[float] = field(default_factory=list)
    # of a reward model: one for the whole solution, or one for each step
    scores: list[float] = field(default_factory=list)
    # if the server's context ended the reply before its token cap, its tokens with the prompt
    context: int = 0
    origin: str = field(default="", compare=False)  # the server (Server.origin), or ""
    model: str = field(default="", compare=False)  # the model's name in the reply, or ""
    reused: bool = field(default=False, compare=False)  # whether it comes from the journal

    @property
    def text(self) -> str:
        """The forced answer if there is one, else the answer."""
        return self.answer if self.forced is None else self.forced

    @property
    def truncated(self) -> bool:
        return end_of(self.finish_reason) == CUT

    @property
    def filtered(self) -> bool:
        """True if the server's content filter ended the completion."""
        return end_of(self.finish_reason) == FILTERED

    @property
    def empty(self) -> bool:
        """True if the reply ended normally but contains no text."""
        return self._lacks_answer and not self.thinking.strip()

    @property
    def only_calls(self) -> bool:
        """True if the reply calls a tool, but contains no answer."""
        return self.finish_reason == TOOL_CALL and not self.text.strip()

    @property
    def only_thinks(self) -> bool:
        """True if the reply ended normally and contains thinking, but no answer."""
        return self._lacks_answer and bool(self.thinking.strip())

    @property
    def _lacks_answer(self) -> bool:
        """True if the reply ended normally, called no tool, and contains no answer."""
        is_cut = self.truncated or self.filtered or self.finish_reason == UNSURE
        has_ended = not (self.error or is_cut or self.only_calls)
        return has_ended and not (self.text.strip() or self.scores)

    @property
    def counted(self) -> tuple[int | None, int | None, int | None]:
        """The numbers of prompt, cached and completion tokens. A number that the server did not
        report is None."""
        has_prompt = bool(self.prompt_tokens or self.error)
        is_silent = has_prompt and not (self.thinking or self.text)
        prompt = self.prompt_tokens if has_prompt else None
        cached = self.cached_tokens if has_prompt else None
        completion = self.completion_tokens if self.completion_tokens or is_silent else None
        return prompt, cached, completion


@dataclass(frozen=True)
class ScorerCompletion(Completion):
    """A completion of the second model, for `ask(…, to="scorer")`. Its cost is counted apart."""


class Ask(Protocol):
    """A function that asks the model, or the second model if `to` is "scorer". `names` must be
    unique within a problem, and `changes` are fields of Sampling."""

    async def __call__(
        self, messages: Sequence[Message], *names: str | int, to: str = "", **changes: Any
    ) -> Completion: ...


@dataclass
class Member:
    """A candidate in a population: its completion and the indices of its `parents` in the previous
    population.

    After verification, `self_score` is in [0, 1] (None: no readable verdict) and `verdicts`
    contains the single verdicts. A scaffold's own score, such as a reward model's, may be any
    number without verdicts. Results contain both kinds, with their AUC. `side_calls` are further
    completions for this candidate (verifications, selections, summaries, plans). `carried_over`
    means that an earlier population of this problem contains the candidate and counts its tokens.
    `notes` name faults that were handled, in a fixed wording ("invalid selection"). Results count
    the notes."""

    completion: Completion
    parents: list[int] = field(default_factory=list)
    self_score: float | None = None
    verdicts: list[float | None] | None = None
    side_calls: list[Completion] = field(default_factory=list)
    carried_over: bool = False
    notes: list[str] = field(default_factory=list)


Population = list[Member]
Populations = AsyncIterator[Population]


class NamedPopulation(Population):
    """A population with a `name` of a word or two ("reviews"). Reports show the name instead of a
    number. If `is_partial`, its solutions are unfinished, so missing answers cause no warning and
    scores enter no AUC."""

    def __init__(self, name: str, members: Iterable[Member], is_partial: bool = False) -> None:
        super().__init__(members)
        self.name = name
        self.is_partial = is_partial


@runtime_checkable
class Planned(Protocol):
    """An object that an experiment runs and plan.sh plans: a scaffold, a comparison of scaffolds,
    or a lab's task."""

    @property
    def constants(self) -> type[Any]: ...


@runtime_checkable
class Bounded(Planned, Protocol):
    """A scaffold or a comparison of scaffolds, with bounds on its requests about one problem."""

    @property
    def max_completions(self) -> Callable[[Any], int]: ...
    @property
    def texts_shown(self) -> Callable[[Any], int]: ...


@dataclass(frozen=True)
class Scaffold(Generic[A]):
    """A way to spend test-time compute on a problem.

    `run(problem, ask, config)` is an async generator of populations, and `constants` is the class
    of `config`. `max_completions(config)` bounds the completions of one problem.
    `texts_shown(config)` bounds the texts (candidates, reports, summaries) in one prompt, and so
    the length of the context. `prompts` are all templates. Results contain a hash of these
    templates. `for_proofs` names the SCAFFOLD to use for proofs ("": this one solves proofs)."""

    run: Callable[[Problem, Ask, A], Populations]
    max_completions: Callable[[A], int]
    texts_shown: Callable[[A], int]
    prompts: tuple[str | Wording, ...]
    constants: type[A]
    for_proofs: str = ""


@dataclass(frozen=True)
class Grade:
    """A grade of a candidate. `value` is in [0, 1] (1 is right), or None if not graded. `answer` is
    the graded answer.

    `doubt` says briefly why the answer may be wrong or missing. `reason` is the grader's
    explanation. `is_undecided` means that there is no verdict, which counts as 0. If the answer was
    forced, `unforced` is the grade without forcing. `before_waits` grades the answers before each
    wait. `side_calls` are the completions of the grading."""

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
    """The grades of a population, in order, and its vote: an `answer` (None: no vote) and all
    answers `tied` with it.

    `groups` contains the rank of each member's answer (0: most votes, None: no answer). `score` is
    the mean grade of the tied answers, in [0, 1]. Without a vote, `score` is the mean of all
    grades. Without grades, `score` is None. `undecided_pairs` counts comparisons of two answers
    without a verdict."""

    grades: list[Grade]
    score: float | None
    answer: str | None = None
    tied: tuple[str, ...] = ()
    groups: tuple[int | None, ...] = ()
    undecided_pairs: int = 0


class Grader(Protocol):
    """A function that grades a population. `ask` sends requests to the run's model or to a second
    server's model."""

    async def __call__(self, problem: Problem, population: Population, ask: Ask) -> Graded: ...
