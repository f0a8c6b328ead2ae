"""List the words for the instructions of the embedded model's training.

Instructions are drawn from the patterns in grammar.py. In a pattern, `<name>` is one of
WORDS[name]. COMMON and SYLLABLES are for meaningless sentences."""

WORDS = {
    name: choices.split("|")
    for name, choices in {
        "problem": (
            "problem|problem|question|task|exercise|puzzle|challenge|item|assignment|math problem|"
            "maths question|competition problem|problem statement|calculation"
        ),
        "solution": (
            "solution|solution|attempt|answer|response|proposal|draft|submission|derivation|try|"
            "output|candidate|candidate solution|write-up|worked solution|reply|argument|"
            "piece of work"
        ),
        "solutions": (
            "solutions|solutions|attempts|answers|responses|proposals|drafts|submissions|"
            "derivations|tries|candidates|candidate solutions|write-ups|outputs|worked solutions|"
            "replies|versions"
        ),
        "wrong": (
            "wrong|wrong|incorrect|flawed|mistaken|faulty|erroneous|incomplete|inaccurate|invalid|"
            "unreliable|off|misleading|full of holes|not right|untrue"
        ),
        "right": (
            "right|correct|sound|valid|accurate|reliable|good|trustworthy|true|useful|convincing"
        ),
        "errors": (
            "errors|mistakes|slips|flaws|faults|gaps|bugs|problems|inaccuracies|wrong steps|typos"
        ),
        "may": "may|might|could|can|may well|will sometimes|are likely to|possibly",
        "people": (
            "students|people|solvers|models|authors|contestants|colleagues|experts|assistants|"
            "friends|users|other people|several students|different models|members of a team|"
            "independent runs|a language model"
        ),
        "write": (
            "write|write|give|produce|provide|compose|create|present|deliver|return|output|submit|"
            "state|make|write down|come up with|work out|hand in|put together|reply with|set out|"
            "formulate"
        ),
        "better": (
            "better|improved|corrected|refined|single|complete|full|final|correct|consolidated|"
            "new|polished|more reliable|high-quality|self-contained|definitive|clean|stronger|"
            "fully worked"
        ),
        "read": (
            "Read|Study|Compare|Examine|Review|Inspect|Analyze|Analyse|Consider|Check|Assess|"
            "Evaluate|Weigh|Use|Go through|Look at|Look closely at|Think about|Take into account|"
            "Work from|Start from|Reconcile"
        ),
        "merge": (
            "Combine|Merge|Aggregate|Synthesize|Consolidate|Unite|Integrate|Fuse|Distil|Join|"
            "Put together|Build on|Draw on|Take the best of|Make the most of|"
            "Pick the best parts of"
        ),
        "carefully": (
            "carefully|thoroughly|critically|closely|rigorously|patiently|slowly|step by step|"
            "line by line|one by one|in detail|with care|before you answer|from the start|again"
        ),
        "solve": (
            "Solve|Solve|Answer|Compute|Calculate|Evaluate|Do|Tackle|Finish|Resolve|Work out|"
            "Work through|Find the answer to|Think about|Please solve|Try to solve|"
            "Give a solution to"
        ),
        "put": (
            "Put|Put|Place|Write|Give|State|Enter|Report|Show|Enclose|Wrap|Box|Leave|Please put|"
            "Make sure to put|Remember to put|You must put"
        ),
        "end": "End|Finish|Conclude|Close|Always end|Please finish|It must end|Wrap up",
        "result": (
            "answer|result|value|number|integer|conclusion|outcome|final answer|final answer|"
            "final result|final value|numerical answer|last line"
        ),
        "box": (
            "\\boxed{}|\\boxed{}|\\boxed{}|\\boxed{}|\\boxed{}|\\boxed{...}|\\boxed{answer}|"
            "\\boxed|a box|\\boxed{ANSWER}|\\boxed{N}"
        ),
        "judge": (
            "Judge|Verify|Check|Grade|Assess|Evaluate|Review|Test|Examine|Decide about|Look over|"
            "Mark"
        ),
        "verdict": (
            '"Verdict: True" or "Verdict: False"|"Verdict: True" or "Verdict: False"|'
            '"Verdict: True" or "Verdict: False"|Verdict: True or Verdict: False|'
            "a verdict, True or False|a verdict (True/False)|the verdict True or False"
        ),
        "you": "You are|You are|You act as|Be|You will be|Imagine you are|Consider yourself",
        "check": (
            "check|Check|double-check|verify|test|review|go over|look over|re-check|recheck|"
            "confirm|examine|make sure of|prove"
        ),
        "done": "finished|finished|done|through|ready|sure|satisfied",
        "again": (
            ".|.|!| again.| once more.| twice.| for <errors>.| with care.| line by line.|"
            " by another method.| and fix what is wrong."
        ),
        "expert": (
            "mathematician|teacher|expert|tutor|student|solver|assistant|mathlete|professor|"
            "contestant|grader|careful mathematician|patient tutor|problem solver|strict teacher|"
            "helpful assistant|skilled solver"
        ),
    }.items()
}
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
