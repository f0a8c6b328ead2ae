// One member: its facts, thinking, answer, prompt, gradings and side calls.

/**
 * The messages of a prompt as they were sent. Texts of members are references
 * (harness/report/texts.py).
 */
function sentMessages(prompt, answers, thoughts) {
  const whole = (piece) => {
    if (typeof piece === "string") return piece;
    const tier = piece.part === "thinking" ? thoughts : answers;
    return tier[piece.of][piece.part];
  };
  return prompt.map(({ role, content }) => ({ role, content: content.map(whole).join("") }));
}

/**
 * A prompt as one text. Each message begins with its role, unless there is only one by the user.
 */
function promptText(prompt, answers, thoughts) {
  const sent = sentMessages(prompt, answers, thoughts);
  if (sent.length === 1 && sent[0].role === "user") return sent[0].content;
  return sent.map(({ role, content }) => `[${role}]\n${content}`).join("\n\n");
}

function memberFacts(run, member, step) {
  const notes = lab.notes?.(run, member) || member.notes;
  const rows = [...gradeFacts(member, step)];
  const add = (name, value) => rows.push([name, value]);
  add("doubt", member.doubt ?? "none");
  add("ended", member.finish_reason ?? "–");
  const prompt = `prompt ${count(member.prompt_tokens)}, cached ${count(member.cached_tokens)}`;
  add("tokens", `${count(member.completion_tokens)} (${prompt})`);
  add("time", seconds(member.seconds));
  if (member.self_score != null) add("score", member.self_score.toFixed(3));
  else if (member.verdicts) add("score", "no readable verdict");
  if (member.unforced) add("unforced", answerWithVerdict(member.unforced));
  if (member.before_waits) {
    add("before waits", member.before_waits.map(answerWithVerdict).join(", then "));
  }
  if (member.error) add("error", member.error);
  rows.push(...(lab.facts?.(run, member) || []));
  if (notes?.length > 0) add("noted", notes.join(", "));
  const elements = rows.map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, String(value))),
  );
  return h("dl", { class: "facts short" }, elements);
}

function gradeFacts(member, step) {
  const rows = [];
  const proof = isProof(member);
  const add = (name, value) => rows.push([name, value]);
  if (member.error) add("answer", "failed");
  else if (member.correct != null && !proof) add("answer", member.answer ?? "none found");
  if (member.group != null) {
    const votes = step.members.filter((other) => other.group === member.group);
    add("votes for this answer", votes.length);
  }
  const verdict = judged(member);
  add("judged", proof ? verdict : (MARKS[rightness(member)] ?? "") + verdict);
  if (member.grade != null && !proof) add("grade", member.grade);
  if (member.grades?.length > 1) {
    add("gradings", member.grades.map((points) => points ?? "missing").join(", "));
  }
  if (proof && member.ungraded) {
    const points = `${inPoints(member.points_share)} points`;
    add("counts as", member.points_share == null ? "missing, not counted in means" : points);
  }
  if (member.self_evaluation_left_out) {
    const characters = count(member.self_evaluation_left_out);
    const omitted = `${characters} characters that the grader was not shown`;
    add("self-evaluation", omitted);
  }
  return rows;
}

const MARKS = { right: "✓ ", partly: "◐ ", wrong: "✗ " };
const answerWithVerdict = (reading) => `${reading.answer ?? "no answer"} (${judged(reading)})`;

/** Show a member in `place`: first its facts, then its texts. */
async function showMember(run, problem, t, i, place) {
  const step = problem.steps[t];
  const member = step.members[i];
  const note = h("p", { class: "quiet", role: "status" }, "reading …");
  place.replaceChildren(
    h("h3", {}, `${stepName(step)}, member ${i} `, memberVerdict(member)),
    memberFacts(run, member, step),
    parentLinks(run, problem, t, member),
    note,
  );
  let answers;
  let thoughts;
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
  if (!answers?.[`${t},${i}`]) {
    note.textContent = "The text is not in the journal.";
    return;
  }
  note.remove();
  byId("status").textContent = place.firstElementChild.textContent;
  const elements = memberTexts(member, `${t},${i}`, answers, thoughts);
  place.append(...elements.flat(Infinity).filter(Boolean));
}

function memberVerdict(member) {
  if (isProof(member)) return h("span", { class: rightness(member) }, judged(member));
  if (member.correct == null) return NOT_GRADED;
  const kind = rightness(member);
  const score = isPartlyRight(member) ? ` (${asScore(member.grade)})` : "";
  return h("span", { class: kind }, `${MARKS[kind]}${cut(brief(member), 40)}${score}`);
}

function parentLinks(run, problem, t, member) {
  if (!member.parents.length) return "";
  const number = problem.steps[t].step - 1;
  const anchors = member.parents.map((j, n) => {
    const anchor = h("a", { href: link(run, problem, t - 1, j) }, `t=${number} member ${j}`);
    return n ? [", ", anchor] : anchor;
  });
  return h("p", {}, "parents: ", anchors);
}

/** The texts of the member `id` ("t,i"). All but its answer are read when they are opened. */
function memberTexts(member, id, answers, thoughts) {
  const mine = answers[id];
  const more = thoughts?.[id];
  const thinking = more?.thinking;
  const sent = (prompt, name) => {
    const text = () => promptText(prompt, answers, thoughts);
    return prompt && fold(`${name}, as it was sent`, text, (text) => [text]);
  };
  const failure = thoughts?.error?.message;
  const elements = [
    failure && unreadable(failure),
    thinking && fold(`Thinking (${count(thinking.length)} characters)`, () => thinking),
    h("h4", {}, isProof(member) ? "Proof" : "Answer"),
    prose(mine.answer || (member.error ? "(failed)" : "(empty)"), "Answer"),
  ];
  if (mine.forced != null) {
    const isForced = member.finish_reason === "length";
    const title = isForced ? "Forced answer (thinking was truncated)" : "With an elicited answer";
    elements.push(h("h4", {}, title), prose(mine.forced, "Forced answer"));
  }
  elements.push(sent(mine.prompt ?? more?.prompt, "Prompt"));
  for (const [n, reason] of (more?.reasons || []).entries()) {
    elements.push(graderTitle(member, n), prose(reason || "(nothing)", "The grader's words"));
  }
  for (const [n, call] of (more?.gradings || []).entries()) {
    elements.push(fold(`Grading ${n + 1}, with thinking`, () => call.text));
    elements.push(sent(call.prompt, `Prompt of grading ${n + 1}`));
  }
  for (const [n, call] of (more?.side_calls || []).entries()) {
    const name = member.verdicts ? `Verification ${n + 1}` : `Side call ${n + 1}`;
    const verdict = member.verdicts && (member.verdicts[n] ?? "unreadable");
    elements.push(fold(member.verdicts ? `${name}: ${verdict}` : name, () => call.text));
    elements.push(sent(call.prompt, `Prompt of ${name.toLowerCase()}`));
  }
  return elements;
}

function unreadable(reason) {
  const words = `The thinking, long prompts and side calls can't be read: ${reason}.`;
  return h("p", { class: "warning" }, words);
}

function graderTitle(member, n) {
  const number = member.grades?.length > 1 ? ` ${n + 1}` : "";
  const grade = member.grades?.[n];
  const points = grade == null ? "no points" : `${grade} points`;
  return h("h4", {}, `The grader's words${number}: ${points}`);
}

/** A text that is set when it is opened. */
function fold(name, text, set) {
  const details = h("details", {}, h("summary", {}, name));
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) details.append(...[prose(text(), name, set)].flat());
  });
  return details;
}
