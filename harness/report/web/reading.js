// The reading view: a problem, its lineage, and one member with its facts, thinking, answer, prompt, gradings and side calls.

const LONG = 40000; // characters shown at once. The rest follows on demand
const FILTERS = {
  all: () => true,
  wrong: (m) => isRightOne(m) === false,
  right: (m) => isRightOne(m),
  truncated: (m) => m.finish_reason === "length",
  "no answer": (m) =>
    !isProof(m) && isRightOne(m) === false && m.doubt != null && m.answer == null && !m.error,
  doubtful: (m) => m.doubt != null && !m.error && !FILTERS["no answer"](m),
  undecided: (m) => m.doubt != null && m.doubt.split(", ").includes("undecided"),
  failed: (m) => Boolean(m.error),
  forced: (m) => m.unforced != null && m.finish_reason === "length",
  elicited: (m) => m.unforced != null && m.finish_reason !== "length",
};
const readingState = { filter: "all", source: false };

// Mathematics: $…$ and \(…\) within a line, $$…$$, \[…\] and environments across lines. A dollar after a blank or before
// a digit closes no formula, because it is money. Markdown: only code, headings and bold.
const RICH = new RegExp(
  [
    /\$\$([^]{1,4000}?)\$\$/,
    /\\\[([^]{1,4000}?)\\\]/,
    /(\\begin\{(?<environment>(?:equation|align|alignat|gather|aligned|gathered|cases|array|[bpvV]?matrix)\*?)\}[^]{1,4000}?\\end\{\k<environment>\})/,
    /\\\(([^]{1,2000}?)\\\)/,
    /\$(?=\S)([^$\n]{0,1000}?[^\s\\$])\$(?!\d)/,
    /(\\boxed\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,200}\}){0,500}\})/,
    /^ *```.*\n([^]*?)(?:^ *```[^\S\n]*$|$(?![^]))/,
    /`([^`\n]+)`/,
    /^#{1,6} +(.+)$/,
    /\*\*(?=\S)((?:(?!\n\n)[^]){1,1000}?)\*\*/,
  ]
    .map((part) => part.source)
    .join("|"),
  "gm",
);

const DEEPEST_MATHS = 60; // levels of KaTeX's parse tree: layout overflows the browser's stack from 180 on, and kills the tab
const MOST_MATHS = 40000; // nodes of parse trees that one text may draw, each about five elements: a second or two
const DEFINES = /\\(?:[egx]?def|let|futurelet|(?:re)?newcommand|providecommand)(?![a-zA-Z])/; // two lines can make millions of tokens
let room = 0; // nodes that the text at hand may still draw

/** Count the nodes of KaTeX's parse tree. Return Infinity if it is deeper than DEEPEST_MATHS. */
function sizeOf(tree) {
  let size = 0;
  for (const open = [[tree, 0]]; open.length;) {
    const [node, above] = open.pop(),
      depth = above + (node.type ? 1 : 0);
    if (depth > DEEPEST_MATHS) return Infinity;
    size += depth - above;
    for (const [name, child] of Object.entries(node))
      if (name !== "loc" && child && typeof child === "object") open.push([child, depth]);
  }
  return size;
}

/** Draw mathematics into an element. Return null if KaTeX can't read it, if it defines macros, or if it is too deep or large. */
function maths(tex, displayMode) {
  const place = h("span", { class: "maths" }),
    source = tex.replace(/\\label\{[^{}]*\}/g, "");
  const options = {
    displayMode,
    throwOnError: true,
    trust: false,
    strict: false,
    maxExpand: 200,
    maxSize: 20,
  };
  if (DEFINES.test(source)) return null;
  try {
    const size = sizeOf(katex.__parse(source, options)) + 2; // 2: the elements around a formula
    if (size > room) return null;
    room -= size;
    katex.render(source, place, options);
  } catch {
    return null;
  }
  return place;
}

/** Text with its mathematics drawn and its Markdown set. Unreadable parts stay as they are, and so do parts deeper than
    bold in a heading. */
function rich(text, depth = 0) {
  if (readingState.source || depth > 2) return [text];
  if (!depth) room = MOST_MATHS;
  const out = [];
  let end = 0;
  for (const found of text.matchAll(RICH)) {
    const [
      whole,
      dollars,
      bracket,
      environment,
      ,
      paren,
      dollar,
      boxed,
      block,
      code,
      heading,
      bold,
    ] = found;
    const display = dollars ?? bracket ?? environment,
      inline = paren ?? dollar ?? boxed;
    const set =
      (display ?? inline)
        ? maths(display ?? inline, display != null)
        : block != null
          ? h("code", { class: "block" }, block)
          : code
            ? h("code", {}, code)
            : heading
              ? h("strong", { class: "block" }, rich(heading, depth + 1))
              : h("strong", {}, rich(bold, depth + 1));
    if (!set) continue;
    out.push(text.slice(end, found.index), set);
    end = found.index + whole.length;
    if ((display ?? block ?? heading) != null && text[end] === "\n") end++; // a block ends its line by itself
  }
  return [...out, text.slice(end)];
}

/** A long text, of which the first part is shown at once. `set` turns a text into nodes. */
function prose(text, label, set = rich) {
  const box = h(
    "div",
    { class: "prose", tabindex: 0, role: "region", "aria-label": label },
    set(text.slice(0, LONG)),
  );
  if (text.length <= LONG) return box;
  let shown = LONG;
  const more = h("button", {
    type: "button",
    onclick: () => {
      box.append(...set(text.slice(shown, shown + 4 * LONG)));
      shown += 4 * LONG;
      if (shown >= text.length) more.remove();
      else more.textContent = left();
    },
  });
  const left = () => `show more (${count(text.length - shown)} characters left)`;
  more.textContent = left();
  return [box, more];
}

/** The messages of a prompt as they were sent. Texts of members are references (harness/report/texts.py). */
function sentMessages(prompt, answers, thoughts) {
  const whole = (piece) =>
    typeof piece === "string"
      ? piece
      : (piece.part === "thinking" ? thoughts : answers)[piece.of][piece.part];
  return prompt.map(({ role, content }) => ({ role, content: content.map(whole).join("") }));
}

/** A prompt as one text. Each message begins with its role, unless there is only one by the user. */
function promptText(prompt, answers, thoughts) {
  const sent = sentMessages(prompt, answers, thoughts);
  if (sent.length === 1 && sent[0].role === "user") return sent[0].content;
  return sent.map(({ role, content }) => `[${role}]\n${content}`).join("\n\n");
}

function facts1(run, member, step) {
  const notes = lab.notes?.(run, member) || member.notes;
  const rows = [
    (member.error || (member.correct != null && !isProof(member))) && [
      "answer",
      member.error ? "failed" : (member.answer ?? "none found"),
    ],
    member.group != null && [
      "votes for this answer",
      step.members.filter((other) => other.group === member.group).length,
    ],
    [
      "judged",
      isProof(member)
        ? judged(member)
        : member.correct == null
          ? NOT_GRADED
          : member.correct
            ? "✓ right"
            : "✗ wrong",
    ],
    member.grade != null && !isProof(member) && ["grade", member.grade],
    member.grades?.length > 1 && [
      "gradings",
      member.grades.map((points) => points ?? "missing").join(", "),
    ],
    isProof(member) &&
      member.ungraded && [
        "counts as",
        member.worth == null ? "missing, not counted in means" : `${inPoints(member.worth)} points`,
      ],
    member.left_out && [
      "self-evaluation",
      `${count(member.left_out)} characters that the grader was not shown`,
    ],
    ["doubt", member.doubt ?? "none"],
    ["ended", member.finish_reason ?? "–"],
    [
      "tokens",
      `${count(member.completion_tokens)} (prompt ${count(member.prompt_tokens)}, cached ${count(member.cached_tokens)})`,
    ],
    ["time", seconds(member.seconds)],
    (member.verdicts || member.self_score != null) && [
      "score",
      member.self_score == null ? "no readable verdict" : member.self_score.toFixed(3),
    ],
    member.unforced && [
      "unforced",
      `${member.unforced.answer ?? "no answer"} (${member.unforced.correct ? "right" : "wrong"})`,
    ],
    member.before_waits && [
      "before waits",
      member.before_waits
        .map((was) => `${was.answer ?? "no answer"} (${was.correct ? "right" : "wrong"})`)
        .join(", then "),
    ],
    member.error && ["error", member.error],
    ...(lab.facts?.(run, member) || []),
    notes?.length > 0 && ["noted", notes.join(", ")],
  ];
  return h(
    "dl",
    { class: "facts short" },
    rows
      .filter(Boolean)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))),
  );
}

async function member(run, problem, t, i, place) {
  const step = problem.steps[t],
    one = step.members[i];
  const parents = one.parents.map((j) =>
    h("a", { href: link(run, problem, t - 1, j) }, `t=${step.step - 1} member ${j}`),
  );
  place.replaceChildren(
    h(
      "h3",
      {},
      `${stepName(step)}, member ${i} `,
      isProof(one)
        ? h("span", { class: rightness(one) }, judged(one))
        : one.correct == null
          ? NOT_GRADED
          : h("span", { class: judged(one) }, `${one.correct ? "✓" : "✗"} ${cut(brief(one), 40)}`),
    ),
    facts1(run, one, step),
    parents.length
      ? h(
          "p",
          {},
          "parents: ",
          parents.flatMap((a, n) => (n ? [", ", a] : [a])),
        )
      : "",
    h("p", { class: "quiet", role: "status" }, "reading …"),
  );
  const note = place.lastElementChild;
  let answers, thoughts;
  try {
    [answers, thoughts] = await Promise.all([
      texts(run.number, problem.number, "a"),
      texts(run.number, problem.number, "b").catch((error) => ({ error })),
    ]);
  } catch (error) {
    note.textContent = `The texts can't be read: ${error.message}.`;
    return;
  }
  if (!place.isConnected) return;
  const mine = answers?.[`${t},${i}`];
  if (!mine) {
    note.textContent = "The text is not in the journal.";
    return;
  }
  note.remove();
  byId("status").textContent = place.firstElementChild.textContent;
  const more = thoughts?.[`${t},${i}`];
  const thinking = more?.thinking;
  const fold = (name, text, set) => {
    const details = h("details", {}, h("summary", {}, name));
    details.addEventListener(
      "toggle",
      () => details.childElementCount === 1 && details.append(...[prose(text(), name, set)].flat()),
    );
    return details;
  };
  const sent = (prompt, name) =>
    prompt &&
    fold(
      `${name}, as it was sent`,
      () => promptText(prompt, answers, thoughts),
      (text) => [text],
    );
  place.append(
    ...[
      thoughts?.error &&
        h(
          "p",
          { class: "warning" },
          `The thinking, long prompts and side calls can't be read: ${thoughts.error.message}.`,
        ),
      thinking && fold(`Thinking (${count(thinking.length)} characters)`, () => thinking),
      h("h4", {}, isProof(one) ? "Proof" : "Answer"),
      prose(mine.answer || (one.error ? "(failed)" : "(empty)"), "Answer"),
      mine.forced != null && [
        h(
          "h4",
          {},
          one.finish_reason === "length"
            ? "Forced answer (thinking was truncated)"
            : "With an elicited answer",
        ),
        prose(mine.forced, "Forced answer"),
      ],
      sent(mine.prompt ?? more?.prompt, "Prompt"),
      (more?.reasons || []).flatMap((reason, n) => [
        h(
          "h4",
          {},
          `The grader's words${one.grades?.length > 1 ? ` ${n + 1}` : ""}: ${one.grades?.[n] == null ? "no points" : `${one.grades[n]} points`}`,
        ),
        prose(reason || "(nothing)", "The grader's words"),
      ]),
      (more?.gradings || []).flatMap((call, n) => [
        fold(`Grading ${n + 1}, with thinking`, () => call.text),
        sent(call.prompt, `Prompt of grading ${n + 1}`),
      ]),
      (more?.side_calls || []).flatMap((call, n) => {
        const name = one.verdicts ? `Verification ${n + 1}` : `Side call ${n + 1}`;
        return [
          fold(
            one.verdicts ? `${name}: ${one.verdicts[n] ?? "unreadable"}` : name,
            () => call.text,
          ),
          sent(call.prompt, `Prompt of ${name.toLowerCase()}`),
        ];
      }),
    ]
      .flat()
      .filter(Boolean),
  );
}

const GRADED_BY = {
  solution: "Reference solution",
  guidelines: "Guidelines for graders",
  grading_scheme: "Marking scheme",
};
/** The texts for graders of a problem's proofs. Each is read when it is opened. */
const gradedBy = (run, problem) =>
  (problem.graded_by || []).map((name) => {
    const details = h("details", {}, h("summary", {}, GRADED_BY[name] ?? name));
    details.addEventListener("toggle", () => {
      if (details.childElementCount > 1) return;
      const place = h("div", {}, "reading …");
      details.append(place);
      texts(run.number, problem.number, "a").then(
        (found) =>
          place.replaceChildren(
            ...[
              prose(
                found?.problem?.[name] ?? "The text is not in this report.",
                GRADED_BY[name] ?? name,
              ),
            ].flat(),
          ),
        (error) => (place.textContent = `The text can't be read: ${error.message}.`),
      );
    });
    return details;
  });

const link = (run, problem, t, i) =>
  `#/${run.number}/problem/${problem.number}` + (t == null ? "" : `/${t}/${i}`);

/** The members that pass the filter, in the order of the keys j and k. */
const passing = (problem) =>
  problem.steps
    .flatMap((step, t) => step.members.map((m, i) => [t, i, m]))
    .filter(([, , m]) => FILTERS[readingState.filter](m));

function reading(run, problem, t, i) {
  const neighbour = (by, sign, rel) => {
    const other = run.problems[problem.number + by];
    return h(
      "a",
      {
        class: "button",
        href: other ? link(run, other) : null,
        "aria-label": `${rel === "prev" ? "previous" : rel} problem`,
        rel,
      },
      sign,
    );
  };
  const head = [
    h(
      "div",
      { class: "bar" },
      neighbour(-1, "‹", "prev"),
      h("h2", {}, `Problem ${problem.id}`),
      neighbour(1, "›", "next"),
      h(
        "span",
        { class: "quiet" },
        `${problem.graded_by ? "asks for a proof" : problem.answer == null ? "no reference answer" : `reference answer ${problem.answer}`} · ${FATES[fate(problem)]}`,
      ),
    ),
    problem.statement != null &&
      h(
        "div",
        { class: "statement", tabindex: 0, role: "region", "aria-label": "Statement" },
        rich(cut(problem.statement, 20000)),
      ),
    gradedBy(run, problem),
  ];
  if (!problem.steps.length) return [head, h("p", { class: "quiet" }, "No step is finished yet.")];
  const chosen = problem.steps[t]?.members[i] ? `${t},${i}` : null;
  const frame = scroll("Lineage", [], "lineage-frame"),
    place = h("article", { class: "member", tabindex: -1, "aria-label": "Member" });
  let picture;
  const draw = () => {
    picture = lineage(
      problem,
      chosen,
      (m) => !FILTERS[readingState.filter](m),
      (a, b) => (location.hash = link(run, problem, a, b)),
    );
    frame.replaceChildren(picture);
  };
  draw();
  const counts = Object.fromEntries(
    Object.keys(FILTERS).map((name) => [
      name,
      problem.steps.reduce((sum, step) => sum + step.members.filter(FILTERS[name]).length, 0),
    ]),
  );
  const filters = h(
    "div",
    { class: "chips", role: "group", "aria-label": "Members shown" },
    Object.keys(FILTERS).map((name) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(readingState.filter === name),
          disabled: name !== "all" && !counts[name],
          onclick: (event) => {
            readingState.filter = name;
            for (const other of filters.children)
              other.setAttribute("aria-pressed", String(other === event.target));
            draw();
          },
        },
        `${name} ${counts[name]}`,
      ),
    ),
  );
  const toggle = (name, state, key, after) =>
    h(
      "label",
      { class: "toggle" },
      h("input", {
        type: "checkbox",
        checked: state[key],
        onchange: (event) => {
          state[key] = event.target.checked;
          after();
        },
      }),
      " " + name,
    );
  const show = () => {
    if (chosen) return member(run, problem, t, i, place);
    place.replaceChildren(
      h(
        "p",
        { class: "quiet" },
        "Choose a member to read it. Keys: arrows move in the picture, j and k go to the next and previous member, n and p to the next and previous problem.",
      ),
    );
  };
  show();
  return [
    head,
    h(
      "figure",
      {},
      h(
        "figcaption",
        {},
        problem.steps.some(hasPoints)
          ? `Lineage, coloured by points: ● ${data.good} or more  ■ fewer  ◇ no grade  ? doubtful. An edge leads from each parent to its child, and is dashed if the parent has fewer`
          : "Lineage: ● right  ■ wrong  ◇ no answer or grade  ? doubtful. An edge leads from each parent to its child, and is dashed if the parent is wrong",
        toggle(
          problem.steps.some(hasPoints) ? "order by points" : "group by answer",
          lineageState,
          "byAnswer",
          draw,
        ),
        exporting(() => picture, `${run.name}-${problem.id}-lineage`),
      ),
      filters,
      frame,
    ),
    h("div", { class: "bar" }, toggle("source text", readingState, "source", show)),
    place,
  ];
}

/** Open the next or previous member that passes the filter. */
function stepMember(run, problem, t, i, by) {
  const list = passing(problem);
  if (!list.length) return;
  const at = list.findIndex(([a, b]) => a === t && b === i);
  const [a, b] =
    list[at < 0 ? (by > 0 ? 0 : list.length - 1) : (at + by + list.length) % list.length];
  location.hash = link(run, problem, a, b);
}
