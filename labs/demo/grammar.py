"""List the patterns of sentences and headers for the instructions of the embedded model's training.

In a pattern, `[a|b]` is a choice, and `<name>` is one of vocabulary.WORDS[name]. A backslash before
[ ] or * keeps the character."""

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
    (
        "<check> [your|the|every|each] "
        "[<result>|work|step|steps|calculation|line|reasoning|<solution>|sum|product|digit|carry]"
        "<again>"
    ),
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
