// Text search through the answers and thinking of all members, without forced answers, prompts and
// side calls.

const MOST_HITS = 200;
const AROUND = 60; // characters shown on both sides of a hit
let searching = 0; // number of the newest search. Older ones give up

/** Search the members of a kind for `words`. Calls `onHit` for each, and `onProgress`. */
async function find(run, words, kind, onHit, onProgress) {
  const mine = ++searching;
  const wanted = words.toLowerCase();
  let hits = 0;
  let missing = 0; // texts that could not be loaded
  const load = (problem, tier) =>
    texts(run.number, problem.number, tier).catch(() => {
      missing++;
      return null;
    });
  for (const problem of run.problems) {
    onProgress(problem.number);
    const tiers = await Promise.all(["a", "b"].map((tier) => load(problem, tier)));
    for (const hit of hitsOf(problem, tiers, wanted, FILTERS[kind])) {
      onHit(hit);
      if (++hits >= MOST_HITS) {
        onProgress(run.problems.length, `the first ${MOST_HITS} members are shown`);
        return;
      }
    }
    await new Promise((resume) => setTimeout(resume)); // let the page breathe
    if (mine !== searching) return;
  }
  const outcome = hits ? plural(hits, "member") : "nothing found";
  const unread = missing ? `. ${plural(missing, "text file")} could not be loaded` : "";
  onProgress(run.problems.length, outcome + unread);
}

/** The hits of a problem, at most one of each member. */
function* hitsOf(problem, [answers, thoughts], wanted, passes) {
  for (const [t, step] of problem.steps.entries()) {
    for (const [i, member] of step.members.entries()) {
      if (!passes(member)) continue;
      const hit =
        hitIn("answer", answers?.[`${t},${i}`]?.answer, wanted) ??
        hitIn("thinking", thoughts?.[`${t},${i}`]?.thinking, wanted);
      if (hit) yield { problem, t, i, ...hit };
    }
  }
}

/** The first match in a text with what precedes and follows it, or null. */
function hitIn(name, text, wanted) {
  const start = text ? text.toLowerCase().indexOf(wanted) : -1;
  if (start < 0) return null;
  const end = start + wanted.length;
  return {
    name,
    before: text.slice(Math.max(0, start - AROUND), start),
    match: text.slice(start, end),
    after: text.slice(end, end + AROUND),
  };
}

const searches = new Map(); // run number -> its search, kept for the way back from a hit

function searchView(run) {
  if (!searches.has(run.number)) searches.set(run.number, newSearch(run.number));
  setTimeout(() => byId("search")?.focus());
  return searches.get(run.number);
}

function newSearch(number) {
  const hits = h("ol", { class: "hits" });
  const progress = h("p", { class: "quiet", role: "status" });
  const box = h("input", {
    type: "search",
    id: "search",
    placeholder: "text in answers and thinking",
    "aria-label": "text to look for",
  });
  const names = filterNames(hasScores(data.runs[number]));
  const options = names.map((name) => h("option", {}, name));
  const kinds = h("select", { "aria-label": "members" }, options);
  const start = (event) => {
    event.preventDefault();
    hits.replaceChildren();
    if (!box.value) return;
    const run = data.runs[number]; // the newest data of a live run
    const problems = plural(run.problems.length, "problem");
    find(
      run,
      box.value,
      kinds.value,
      (hit) => hits.append(hitView(run, hit)),
      (done, words) => {
        progress.textContent = words || `looked through ${done} of ${problems} …`;
      },
    );
  };
  const button = h("button", { type: "submit" }, "Search");
  const form = h("form", { class: "bar", role: "search", onsubmit: start }, box, kinds, button);
  return [h("h2", {}, "Search"), form, progress, hits];
}

function hitView(run, { problem, t, i, name, before, match, after }) {
  const place = `${problem.id} t=${problem.steps[t].step} member ${i}`;
  const anchor = h("a", { href: link(run, problem, t, i) }, place);
  return h("li", {}, anchor, ` ${name}: …${before}`, h("mark", {}, match), after + "…");
}
