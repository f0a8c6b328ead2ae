"""Draw the instructions for the embedded model's training, from a small grammar of sentences and
headers.

A model of this size treats instructions as passwords unless it has seen them in very many words. So
each sentence is drawn from a pattern. In a pattern, `[a|b]` is a choice, and `<name>` is one of
WORDS[name]. Sentences are dropped, shuffled, or mixed with unrelated and meaningless sentences. The
model must learn only one thing from the instructions: whether to improve or to judge a single
candidate. No single word may make the model recompute in SOLVE, as other roles do. So SOLVE's
prompts may ask for care in many ways. Some even contain sentences of other skills, although they
show no candidate."""

import random
import re
from collections.abc import Sequence

WORDS = {
    name: choices.split("|")
    for name, choices in {
        "problem": "problem|problem|question|task|exercise|puzzle|challenge|item|assignment|math problem|"
        "maths question|competition problem|problem statement|calculation",
        "solution": "solution|solution|attempt|answer|response|proposal|draft|submission|derivation|try|output|"
        "candidate|candidate solution|write-up|worked solution|reply|argument|piece of work",
        "solutions": "solutions|solutions|attempts|answers|responses|proposals|drafts|submissions|derivations|"
        "tries|candidates|candidate solutions|write-ups|outputs|worked solutions|replies|versions",
        "wrong": "wrong|wrong|incorrect|flawed|mistaken|faulty|erroneous|incomplete|inaccurate|invalid|unreliable|"
        "off|misleading|full of holes|not right|untrue",
        "right": (
            "right|correct|sound|valid|accurate|reliable|good|trustworthy|true|useful|convincing"
        ),
        "errors": (
            "errors|mistakes|slips|flaws|faults|gaps|bugs|problems|inaccuracies|wrong steps|typos"
        ),
        "may": "may|might|could|can|may well|will sometimes|are likely to|possibly",
        "people": "students|people|solvers|models|authors|contestants|colleagues|experts|assistants|friends|users|"
        "other people|several students|different models|members of a team|independent runs|"
        "a language model",
        "write": "write|write|give|produce|provide|compose|create|present|deliver|return|output|submit|state|make|"
        "write down|come up with|work out|hand in|put together|reply with|set out|formulate",
        "better": "better|improved|corrected|refined|single|complete|full|final|correct|consolidated|new|polished|"
        "more reliable|high-quality|self-contained|definitive|clean|stronger|fully worked",
        "read": "Read|Study|Compare|Examine|Review|Inspect|Analyze|Analyse|Consider|Check|Assess|Evaluate|Weigh|"
        "Use|Go through|Look at|Look closely at|Think about|Take into account|Work from|Start from|"
        "Reconcile",
        "merge": "Combine|Merge|Aggregate|Synthesize|Consolidate|Unite|Integrate|Fuse|Distil|Join|Put together|"
        "Build on|Draw on|Take the best of|Make the most of|Pick the best parts of",
        "carefully": "carefully|thoroughly|critically|closely|rigorously|patiently|slowly|step by step|"
        "line by line|one by one|in detail|with care|before you answer|from the start|again",
        "solve": "Solve|Solve|Answer|Compute|Calculate|Evaluate|Do|Tackle|Finish|Resolve|Work out|Work through|"
        "Find the answer to|Think about|Please solve|Try to solve|Give a solution to",
        "put": "Put|Put|Place|Write|Give|State|Enter|Report|Show|Enclose|Wrap|Box|Leave|Please put|"
        "Make sure to put|Remember to put|You must put",
        "end": "End|Finish|Conclude|Close|Always end|Please finish|It must end|Wrap up",
        "result": "answer|result|value|number|integer|conclusion|outcome|final answer|final answer|final result|"
        "final value|numerical answer|last line",
        "box": "\\boxed{}|\\boxed{}|\\boxed{}|\\boxed{}|\\boxed{}|\\boxed{...}|\\boxed{answer}|\\boxed|a box|"
        "\\boxed{ANSWER}|\\boxed{N}",
        "judge": (
            "Judge|Verify|Check|Grade|Assess|Evaluate|Review|Test|Examine|Decide about|Look "
            "over|Mark"
        ),
        "verdict": '"Verdict: True" or "Verdict: False"|"Verdict: True" or "Verdict: False"|'
        '"Verdict: True" or "Verdict: False"|Verdict: True or Verdict: False|a verdict, True or '
        "False|"
        "a verdict (True/False)|the verdict True or False",
        "you": "You are|You are|You act as|Be|You will be|Imagine you are|Consider yourself",
        "check": "check|Check|double-check|verify|test|review|go over|look over|re-check|recheck|confirm|examine|"
        "make sure of|prove",
        "done": "finished|finished|done|through|ready|sure|satisfied",
        "again": ".|.|!| again.| once more.| twice.| for <errors>.| with care.| line by line.| by another method.| and fix "
        "what is wrong.",
        "expert": "mathematician|teacher|expert|tutor|student|solver|assistant|mathlete|professor|contestant|"
        "grader|careful mathematician|patient tutor|problem solver|strict teacher|helpful "
        "assistant|skilled solver",
    }.items()
}
SOLVE_ASKS = (
    "[<solve>|<solve>] [the|this|the following|the given|the above] <problem>[| <carefully>].",
    "<solve> [this|it][| <carefully>][.|:|!]",
    (
        "[Reason|Think|Work|Please reason|Please think|Let's think|Proceed|Calculate] "
        "<carefully>[.|,| and] [then ||]<write> the <result>."
    ),
    (
        "<put> [your|the] <result> [in|inside|within|into|as] <box>[.|| at the end.| on the last "
        "line.]"
    ),
    "<end> with [the|your] <result> in <box>.",
    (
        "[Show|Write out|Explain|Justify|Give|Include|List] [your|all|every|the] "
        "[work|working|steps|step|reasoning|products|calculations]."
    ),
    (
        "[The|Your] <result> [is|will be|must be|should be] [an integer|a whole number|a number] "
        "[between 0 and 999|from 0 to 999|below 1000]."
    ),
    (
        "[First|Start by|Begin by|Please] [find|compute|work out|computing|taking] [every "
        "product|all the products|each term|one product at a time], then [add|sum up|take the "
        "total]."
    ),
    (
        "[I need|We need|I would like|I want|Could you give me|Can you give me|Please give me] the "
        "<result>[| to this <problem>][.|, please.|?]"
    ),
    "<write> a <better> <solution>[.| with the <result> in <box>.]",
    "Your [job|task|goal|aim] is to <write> the <result>[.| as <box>.]",
)
AGGREGATE_INTROS = (
    (
        "[Here are|Below are|These are|You are given|You have|Next come|There are|I have|We "
        "collected|I got|You see here] [|{k} |several |a few |some |the |all ][|earlier |previous "
        "|proposed |possible |independent |different ]<solutions>[| to this <problem>| for the "
        "<problem>| of the same <problem>| from <people>| by <people>][.|:| below.|, in no order.]"
    ),
    (
        "{k} <solutions>[| follow| are given| are listed below| were collected| of mixed quality "
        "follow][.|:]"
    ),
    (
        "[Several |Many |Some |A few |{k} |]<people> [have |]<write> [an|this|a] <solution>[.|, "
        "shown below.|; here they are.]"
    ),
    (
        "[Some|Some of them|Any of them|All of these|Each|None|Not all|Most|Many|The "
        "<solutions>|They|These] <may> [be|all be|in part be] <wrong>[.|, others <right>.|; do not "
        "trust them.|, in different places.]"
    ),
    (
        "[Some|Any|Each|They|These|The texts|The <solutions>] <may> [contain|have|include|hide] "
        "<errors>[.|, so be careful.|.]"
    ),
    (
        "[Not all|Only some|Few|None|A part|Hardly any] of [them|these|the <solutions>] [is|are] "
        "[known to be |certainly |fully |surely |]<right>."
    ),
    (
        "[Previous|Earlier|Proposed|Collected|Candidate|Given|Reference|Prior|Student] "
        "<solutions>[:| ({k}):| (possibly <wrong>):]"
    ),
    (
        "[The following|These] [{k} |]<solutions> [were|are] "
        "[written|produced|made|given|generated|sampled|proposed] [independently|by "
        "<people>|earlier|for this <problem>][.|:|; they may disagree.]"
    ),
    "<read> [the|these|all|the following|my] [{k} |]<solutions>[| <carefully>][.|:]",
    (
        "[Other|Several|Different] people tried [it|this|the <problem>] [before|already|too][.|:|, "
        "with mixed success.]"
    ),
)
AGGREGATE_ASKS = (
    (
        "<merge> [the|these|all|the above|the given] <solutions>[| into [one|a] <better> "
        "<solution>| into one| and <write> a <better> one][.|!]"
    ),
    (
        "<read> [the|these|all|all the|every|each of the|them|the {k}] <solutions> <carefully>[.| "
        "and <write> a <better> <solution>.|, then <write> a <better> one.]"
    ),
    (
        "<write> [a|one|the|your own] <better>[|, <better>] <solution>[| of the <problem>| to the "
        "<problem>| based on them| from these][.|.| with the <result> in <box>.| ending in <box>.]"
    ),
    (
        "[Using|Based on|With the help of|Given|From|Guided by|Looking at|In light of] "
        "[them|these|the <solutions>|the above|what is <right>|the information above], <write> "
        "[a|the|one] <better> <solution>[.| and <put> the <result> in <box>.]"
    ),
    (
        "[Keep|Take|Reuse|Use|Trust|Copy|Retain] what is <right>[| in each|, drop what is "
        "<wrong>|, fix what is <wrong>|, and repair the rest][.|.]"
    ),
    (
        "[Find|Spot|Fix|Correct|Repair|Remove|Avoid|Identify|Point out|Resolve|Beware of] "
        "[the|any|all|their|possible] <errors>[.| and <write> the <solution> again.| you find.]"
    ),
    (
        "[Where|When|If|Wherever] [they|the <solutions>|these] "
        "[disagree|differ|conflict|contradict each other], [decide which one is <right>|work it "
        "out yourself|find out why|choose with care|do it again]."
    ),
    (
        "[If|In case|Should] [all|none|every one] of them [is|are|be] <wrong>, [try something "
        "else|start afresh|use a different strategy|solve it yourself|think again]."
    ),
    (
        "<put> [your|the|its] <result> [in|inside|within|into|as] <box>[.|, as before.| at the "
        "end.| at the very end.]"
    ),
    "<end> with [the|your] <result> in <box>.",
    (
        "[Now|Then|Finally|Next|So|Please|Now please|Your turn:] <write> [the|your|a] <better> "
        "<solution>."
    ),
    (
        "Your [job|task|goal|aim|role] is to <write> [a|one] <better> <solution>[.| that is "
        "<right>.| out of these.]"
    ),
    (
        "[Do not|Don't|Never|There is no need to] [mention|cite|discuss|comment on|refer to] "
        "[them|the <solutions>|other <solutions>|these <people>]."
    ),
    "[Think|Reason|Work|Proceed|Compare them] <carefully>[.|, then answer.|, and be complete.]",
    (
        "[Could|Can|Would] you [please |]<write> [the|a] <better> <solution>[?| for me?| from all "
        "this?]"
    ),
)
REFINE_INTROS = (
    (
        "[Here is|Below is|This is|You are given|There is|I have|You see] [a|an|one|an earlier|a "
        "previous|my|some] <solution>[| to this <problem>| by a student| from a friend][.|:]"
    ),
    "[It|The <solution>|This] <may> be <wrong>[.|; do not trust it.]",
    "[It|The <solution>|This] <may> contain <errors>.",
    "[Previous|Earlier|Current|First|Given|Existing] <solution>:",
    "A [student|friend|model|colleague|solver] has [answered|tried|written this].",
)
REFINE_ASKS = (
    (
        "[Improve|Refine|Correct|Fix|Repair|Polish|Revise|Rework|Rewrite|Redo] [it|the "
        "<solution>|this <solution>|my <solution>][|, <carefully>| and <write> a <better> one][.|!]"
    ),
    (
        "[Find|Spot|Fix|Correct|Repair] [the|any|all|its] <errors> and <write> [the <solution>|it] "
        "again[.|, with the <result> in <box>.]"
    ),
    (
        "<write> [a|the] <better> [version|<solution>][.| of it.| of this <solution>.| with the "
        "<result> in <box>.]"
    ),
    "[Improve|Refine|Correct|Rewrite] [it|the <solution>] and <put> [your|the] <result> in <box>.",
    "[Keep|Use] what is <right>, [fix|repair|correct] the rest, and <write> a <better> <solution>.",
)
VERIFY_INTROS = (
    (
        "[Here is|Below is|This is|You are given|There is|Consider|Look at] [a|the|one|the "
        "following|a proposed|a student's] <solution>[| to judge| to grade| to check][.|:]"
    ),
    "[Proposed|Candidate|Given|Submitted|Student] <solution>:",
    "[It|The <solution>|This] <may> or may not be <right>.",
)
VERIFY_ASKS = (
    (
        "Is [the|this] <solution> [right|correct|valid]? [End|Finish|Answer|Reply|Conclude] with "
        "<verdict>."
    ),
    (
        "<judge> [the|this] <solution>[| <carefully>][. End with| and give| and finish with|, then "
        "give|; the last line is] <verdict>."
    ),
    (
        "<judge> [whether|if] [the|its|this] <result> is [right|correct] and "
        "[say|write|reply|answer with|state] <verdict>."
    ),
    (
        "[Decide|Tell me|Say|Find out|Determine] [whether|if] [the|its|this] <result> is "
        "[right|correct]: <verdict>."
    ),
    "Your last line [must read|is|should be|has to be] <verdict>[.|, nothing else.]",
    (
        "[Verdict: True if|Say Verdict: True when|Write Verdict: True if] the <result> is "
        "[right|correct], Verdict: False [if not|otherwise|if it is wrong]."
    ),
    "<you> a [strict|fair|careful] grader: give <verdict>.",
)
OTHER_SKILLS = (
    AGGREGATE_INTROS + AGGREGATE_ASKS,
    REFINE_INTROS + REFINE_ASKS,
    VERIFY_INTROS + VERIFY_ASKS,
)
UNRELATED = (
    (
        "[Take your time|Be concise|Use plain text|Be brief|Mind the digits|Good luck|Thank "
        "you|Thanks in advance|Be honest|Stay calm|No hurry][.|!]"
    ),
    (
        "[Do not|Don't|Never|Avoid to] [use a calculator|guess|skip steps|give up|write "
        "code|apologize|repeat the <problem>|rush]."
    ),
    (
        "[This|The] <problem> [comes from|was set in|is part of|appeared in] [a contest|an exam|a "
        "textbook|a competition|our benchmark|class]."
    ),
    "[Write|Answer|Reply] in [English|plain words|full sentences|LaTeX|Markdown|a clear style].",
    "<you> a <expert>.",
    "[You have|There is] [one attempt|enough time|plenty of room|only one chance|no time limit].",
    (
        "[I am|We are|My class is] [preparing for|working on|stuck with|curious about] [an exam|a "
        "<problem>|this <problem>|the <result>]."
    ),
    (
        "[Only|Just] the [last|boxed|final] [line|answer|value] [counts|is graded|will be "
        "read|matters]."
    ),
)
# Requests for care. They fit solving, merging and judging, so they do not tell the model which
# skill to use.
CAREFUL = (
    (
        "[When|Once|After|As soon as] you [are done|have finished|are through|finish|have the "
        "<result>|reach the end], <check> [your|the|every|each] "
        "[<result>|work|step|steps|calculation|line|reasoning|<solution>|sum|product]<again>"
    ),
    (
        "[Before|Until] you [answer|finish|hand it in|stop|submit|reply|are sure], <check> "
        "[your|the|every|each] "
        "[<result>|work|step|steps|calculation|line|reasoning|<solution>|sum|product]<again>"
    ),
    "<check> [your|the|every|each] [<result>|work|step|steps|calculation|line|reasoning|<solution>|sum|product|digit|carry]<again>",
    (
        "[|When you are <done>, |Once <done>, |Then |Finally, |At the end, |Please |And ]check "
        "[your|the] [result|result|answer|solution|work|steps|working]<again>"
    ),
    (
        "[|When you are <done>, |After that, |Before you <write> it, |Please |Always "
        "][check|check|double-check|verify] [your|the] [result|result|answer|final "
        "answer|solution] and <write> it in <box>."
    ),
    (
        "<check> [your|the] [<result>|work|steps|calculations] and [then ||]<write> [it|the "
        "<result>|the <result> in <box>]."
    ),
    (
        "[Make sure|Be sure|Take care|See to it|It is important|I need to know] that "
        "[each|every|any] [step|product|line|digit|sum|claim] is <right>[.|!]"
    ),
    (
        "[Explain|Say|Show|Argue|Prove|Justify] why [each|every] [step|line|claim|product] is "
        "<right>[.|, as in an exam.| in full.]"
    ),
    (
        "[Be|Stay|Remain] "
        "[careful|rigorous|precise|exact|thorough|critical|strict|attentive|sceptical][.|!| "
        "throughout.| all the time.| with the digits.]"
    ),
    (
        "[This|Here|It] is [an exercise|a question|homework|an old exam|a test|a quiz|a classic][ "
        "for you| for our class| from my teacher||, be warned][.|:]"
    ),
    (
        "[Marks|Points|Credit|Half of the points] [are|is|will be] [given|awarded|lost|taken off] "
        "for [the method|each step|every line|<errors>|a missing step|full working]."
    ),
    (
        "[Your|The] [work|<solution>|<result>|reasoning] [is|will be|gets] "
        "[graded|marked|checked|judged|verified|reviewed|compared] [by <people>|by an expert|line "
        "by line|by a strict teacher|later|afterwards]."
    ),
    (
        "[Someone|A student|My friend|The last solver|Everybody|Our teacher|Another model] got "
        "[it|this|a <result> that is] <wrong>[.|, so beware.|; do better.]"
    ),
    "[Watch out|Look out|Beware|Mind] [for|of] <errors>[.|!| in the digits.| in long products.]",
    (
        "[Do not|Don't|Never] [trust your first idea|take shortcuts|make <errors>|be "
        "careless|answer too early|leave out a step|rely on memory]."
    ),
    (
        "[Correct|Mend|Fix] [yourself|any slip|what is <wrong>|your <errors>] [as you go|on the "
        "way|before the end|at once]."
    ),
    "[Solve|Do|Calculate] it [twice|two ways|again at the end][.| and compare.| to be sure.]",
)
STATEMENTS = (
    (
        "[Find|Determine|Compute|Give|What is|Calculate] the remainder when {e} is divided by "
        "1000[.|?]"
    ),
    "[Compute|Find|Evaluate|What is] [{e}|({e})] [modulo|mod] 1000[.|?]",
    "[Work out|Compute|Calculate] {e} and give the remainder [after division by|modulo] 1000.",
    "[Determine|Find] the last three digits, as a number, of {e}.",
    "{e}, remainder modulo 1000?",
)
SYSTEM_MESSAGES = (
    "<you> a <expert>[.|. <write> <right> <solutions>.]",
    "Answer in the form you are asked for.",
    "You solve competition problems[.| <carefully>.]",
)

# Headers of the problem (text {p}) and of candidate number {i} (letter {a}, text {t}).
PROBLEM_STYLES = (
    *("{p}",) * 5,
    *(
        (
            "[Problem|Problem|Question|Task|Exercise|Statement|Puzzle|Q|The problem|Given "
            "problem|Math problem]:[\n|\n\n| ]{p}"
        ),
    )
    * 5,
    "[#|##|###] [Problem|Question|Task|Exercise|Problem statement|The problem][\n|\n\n]{p}",
    "\\*\\*[Problem|Question|Task|Exercise|Problem:|Question:]\\*\\*[\n|\n\n| ]{p}",
    "<problem>\n{p}\n</problem>",
    "<question>\n{p}\n</question>",
    (
        "[Here is|Consider|This is|We look at|Suppose you get|I have] [a|the|this|the following|an "
        "interesting] <problem>:[\n|\n\n| ]{p}"
    ),
    "[---|===|***|```|----------]\n{p}\n[---|===|***|```|----------]",
    '"{p}"',
    "[    |  |\t|> ]{p}",
    (
        "[Problem|Question|Task|Exercise|The problem|Read this|One <problem>][:| for you:|:\n][\n  "
        "  |\n  |\n\n\t|\n\n      |   ]{p}[|\n]"
    ),
    "[PROBLEM|QUESTION|TASK|INPUT][:|]\n{p}",
)
CANDIDATE_STYLES = (
    *("Candidate {i}:\n{t}",) * 8,
    *(
        (
            "[Solution|Attempt|Candidate "
            "solution|Answer|Response|Proposal|Draft|Student|Try|Version|Trace] "
            "[{i}|{i}|{a}][:|:|.|][\n|\n\n]{t}"
        ),
    )
    * 6,
    "[#|##|###] [Solution|Attempt|Candidate|Answer|Response] {i}[\n|\n\n]{t}",
    "\\*\\*[Solution|Attempt|Candidate|Answer|Response] {i}[:|]\\*\\*\n{t}",
    "\\[{i}\\]\n{t}",
    "({i})\n{t}",
    "<solution {i}>\n{t}\n</solution {i}>",
    "<candidate>\n{t}\n</candidate>",
    "[---- |=== |]Attempt {i}[ ----| ===|]\n{t}",
)
BARE_STYLES = (
    *("{t}",) * 2,
    "<solution>\n{t}\n</solution>",
    "```\n{t}\n```",
    *("[Candidate|Candidate solution|Solution|Attempt|Student's answer|Proposed solution]:\n{t}",)
    * 3,
    "[#|##|###] [Solution|Candidate|Attempt]\n{t}",
    "---\n{t}\n---",
)
# Headers of the block of candidates and of the instructions, and texts that close a prompt.
BLOCK_HEADERS = (
    "[#|##|###] [Candidates|Candidate solutions|Solutions|Attempts|Previous attempts|Responses]",
    "[Candidates|Solutions|Attempts|Drafts|Candidate solutions|CANDIDATES|Responses]:",
    "\\*\\*[Candidates|Solutions|Attempts|Candidate solutions]\\*\\*",
)
INSTRUCTION_HEADERS = (
    "[#|##|###] [Instructions|Task|Your task|What to do|Output|Requirements|Guidelines|Rules]",
    "[Instructions|Task|Your task|Now|Output format|Note|Requirements|INSTRUCTIONS|TASK]:",
    "\\*\\*[Instructions|Your task|Output]\\*\\*",
)
CLOSINGS = (
    (
        "[Solution|Your solution|Final solution|Improved solution|Answer|Your "
        "answer|Response|Output|Corrected solution]:"
    ),
    "[#|##|###] [Solution|Your solution|Answer|Improved solution|Final solution]",
)
NUMBER_WORDS = "zero one two three four five six seven eight".split()
# Common words and syllables for meaningless sentences, which also use WORDS.
COMMON = (
    "the a of to and in is it that for on with as this by from at or an be are not but which they "
    "have all can will there each when what how its their more some other than then into only "
    "over such also through after before between where most many much like just first last next "
    "new own same few own very well even back still here time way day man world life hand part "
    "place case week company system program work government number night point home water room "
    "mother area money story fact month lot study book eye job word business issue side kind head "
    "house service friend father power hour game line end member law car city community name "
    "president team minute idea body information parent face others level office door health "
    "person art war history party reason morning change moment air force education say get make "
    "go know take see come think look want give use find tell ask seem feel try leave call keep "
    "let begin help talk turn start show hear play run move live believe hold bring happen must "
    "provide sit stand lose pay meet include continue set learn lead understand watch follow stop "
    "create speak read allow add spend grow open walk win offer remember love consider appear buy "
    "wait serve die send expect build stay fall cut reach kill remain big small large young old "
    "early late long little high low different public bad able important sure clear free human "
    "local easy strong possible whole real best recent economic hard major general past special "
    "open red green blue white black short single personal simple quick section option format "
    "style content message model token sample method approach step stage score rank list table "
    "figure theorem lemma proof claim equation sum product total digit remainder factor term row "
    "column graph chart"
).split()
SYLLABLES = (
    "ba be bi bo bu ca ce co cu da de di do du fa fe fi fo ga ge go ha he hi ho ja jo ka ke la le "
    "li lo lu ma me mi mo mu na ne ni no nu pa pe pi po ra re ri ro ru sa se si so su ta te ti to "
    "tu va ve vi wa we wi ya yo za zo tion ing ed er est ly ment ness able ight ough str spr thr "
    "ch sh ck nd nt rd st ll ss tt x q"
).split()

CHOICE = re.compile(r"(?<!\\)\[([^\[\]]*?)(?<!\\)\]")
NAME = re.compile(r"<(\w+)>")


def drawn(rng: random.Random, pattern: str) -> str:
    """Draw one text from `pattern`. A backslash before [ ] or * keeps the character."""

    def word(match: re.Match[str]) -> str:
        choices = WORDS.get(match[1])
        # only patterns of styles use <problem> as a tag
        return rng.choice(choices) if choices else match[0]

    while match := CHOICE.search(pattern):
        pattern = (
            pattern[: match.start()] + rng.choice(match[1].split("|")) + pattern[match.end() :]
        )
    pattern = NAME.sub(word, pattern)
    return pattern.replace("\\[", "[").replace("\\]", "]").replace("\\*", "*")


def sentence(rng: random.Random, pattern: str, count: int = 1) -> str:
    """Draw a sentence from `pattern`. `count` replaces {k}, and the first letter becomes a
    capital."""
    number = NUMBER_WORDS[count] if rng.random() < 0.3 else str(count)
    text = drawn(rng, pattern).replace("{k}", number)
    return text[:1].upper() + text[1:]


def meaningless(rng: random.Random) -> str:
    """Draw a meaningless sentence of common and invented words, which looks like an unknown
    instruction."""
    words = []
    for _ in range(rng.randint(3, 14)):
        if rng.random() < 0.25:
            words.append("".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))))
        elif rng.random() < 0.15:
            words.append(rng.choice(WORDS[rng.choice(tuple(WORDS))]))
        else:
            words.append(rng.choice(COMMON))
        if rng.random() < 0.08:
            words[-1] += ","
    text = " ".join(words)
    return text[:1].upper() + text[1:] + rng.choice((".", ".", ".", "!", "?", ":", ""))


def beside_the_point(rng: random.Random) -> str:
    """Draw a sentence that is meaningless, or irrelevant to the problem."""
    return (
        meaningless(rng) if rng.random() < 0.5 else sentence(rng, rng.choice(UNRELATED + CAREFUL))
    )


def shaken(rng: random.Random, text: str) -> str:
    """Return the text, sometimes in lower case or with shuffled words, so that exact wordings do
    not matter."""
    roll = rng.random()
    if roll < 0.05:
        return text.lower()
    if roll < 0.1:
        words = text.split()
        rng.shuffle(words)
        return " ".join(words)
    return text


def paragraph(
    rng: random.Random,
    patterns: Sequence[str],
    fewest: int,
    count: int = 1,
    besides: Sequence[Sequence[str]] = (),
) -> str:
    """Draw a paragraph. Up to five sentences, and `fewest` at least, come from `patterns`. Others
    may come from `besides`, and from irrelevant or meaningless texts. The paragraph may be empty if
    `fewest` is 0."""
    most = rng.choices((0, 1, 2, 3, 4, 5), (0.1, 0.28, 0.28, 0.18, 0.1, 0.06))[0]
    sentences = [
        sentence(rng, p, count) for p in rng.sample(patterns, min(len(patterns), max(fewest, most)))
    ]
    for others in (UNRELATED, CAREFUL, CAREFUL, *besides):
        if rng.random() < 0.25:
            sentences.append(sentence(rng, rng.choice(others), rng.randint(1, 4)))
    for _ in range(rng.choices((0, 1, 2), (0.8, 0.14, 0.06))[0]):
        sentences.append(meaningless(rng))
    rng.shuffle(sentences)
    sentences = [shaken(rng, s) for s in sentences]
    style = rng.random()
    if style < 0.1:
        return "\n".join(f"- {s}" for s in sentences)
    if style < 0.15:
        return "\n".join(f"{i}. {s}" for i, s in enumerate(sentences, 1))
    return rng.choice((" ", " ", " ", "\n", "\n\n")).join(sentences)


def headed(rng: random.Random, headers: Sequence[str], text: str, share: float) -> str:
    if text and rng.random() < share:
        return sentence(rng, rng.choice(headers)) + rng.choice(("\n", "\n\n", "\n\n")) + text
    return text


def arranged(rng: random.Random, parts: Sequence[str]) -> str:
    return rng.choice(("\n\n", "\n\n", "\n\n", "\n")).join(part for part in parts if part)


def stated(rng: random.Random, problem: str) -> str:
    style = rng.choice(PROBLEM_STYLES)
    # A style in tags is used as it is, because drawing would replace the tag <problem> by a word.
    text = style if style.startswith("<") else drawn(rng, style)
    return text.replace("{p}", problem)


def shown(rng: random.Random, style: str, text: str, number: int) -> str:
    return style.replace("{i}", str(number)).replace("{a}", chr(64 + number)).replace("{t}", text)


def solve_prompt(rng: random.Random, problem: str) -> str:
    """Draw a prompt for SOLVE. Some prompts also contain sentences that ask for another skill. The
    skill is SOLVE all the same, because no candidate is shown."""
    besides = OTHER_SKILLS if rng.random() < 0.5 else ()
    asked = headed(rng, INSTRUCTION_HEADERS, paragraph(rng, SOLVE_ASKS, 0, besides=besides), 0.1)
    closing = sentence(rng, rng.choice(CLOSINGS)) if rng.random() < 0.08 else ""
    before = paragraph(rng, SOLVE_ASKS, 1, besides=besides) if rng.random() < 0.45 else ""
    if rng.random() < 0.3:
        return arranged(rng, (asked, stated(rng, problem), closing))
    return arranged(rng, (before, stated(rng, problem), asked, closing))


def aggregate_prompt(rng: random.Random, problem: str, candidates: list[str]) -> str:
    """Draw a prompt for AGGREGATE. With one candidate, it always asks for a refinement, so that it
    can't mean judging."""
    single, count = len(candidates) == 1, len(candidates)
    styles = CANDIDATE_STYLES + BARE_STYLES if single else CANDIDATE_STYLES
    style = rng.choice(styles)
    if not style.startswith("<"):
        style = drawn(rng, style)
    block = rng.choice(("\n\n", "\n\n", "\n\n", "\n", "\n\n---\n\n")).join(
        shown(rng, style, t, i) for i, t in enumerate(candidates, 1)
    )
    intros, asks = (REFINE_INTROS, REFINE_ASKS) if single else (AGGREGATE_INTROS, AGGREGATE_ASKS)
    block = headed(rng, BLOCK_HEADERS, block, 0.12)
    intro = paragraph(rng, intros, 1, count) if rng.random() < 0.85 else ""
    asked = headed(rng, INSTRUCTION_HEADERS, paragraph(rng, asks, 1 if single else 0, count), 0.12)
    closing = sentence(rng, rng.choice(CLOSINGS)) if rng.random() < 0.1 else ""
    posed = stated(rng, problem)
    orders = (
        (posed, intro, block, asked, closing),
        (asked, posed, intro, block, closing),
        (intro, block, posed, asked, closing),
        (intro, posed, block, asked, closing),
        (asked, intro, posed, block, closing),
    )
    return arranged(rng, rng.choices(orders, (0.5, 0.15, 0.08, 0.17, 0.1))[0])


def verify_prompt(rng: random.Random, problem: str, candidate: str) -> str:
    style = rng.choice(BARE_STYLES)
    block = shown(rng, style if style.startswith("<") else drawn(rng, style), candidate, 1)
    intro = paragraph(rng, VERIFY_INTROS, 1) if rng.random() < 0.6 else ""
    asked = headed(rng, INSTRUCTION_HEADERS, paragraph(rng, VERIFY_ASKS, 1), 0.08)
    posed = stated(rng, problem)
    orders = (
        (posed, intro, block, asked),
        (asked, posed, intro, block),
        (intro, posed, block, asked),
    )
    return arranged(rng, rng.choices(orders, (0.65, 0.2, 0.15))[0])
